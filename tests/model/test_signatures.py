"""Shapes in signatures are only checked while testing if they can be read."""

from __future__ import annotations

import inspect
import pkgutil
import typing
from importlib import import_module

import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

import fedci.model
from fedci.model import covariance, kernels
from fedci.model.paper import posterior
from fedci.model.shared import basis

MODULES = sorted(module.name for module in pkgutil.walk_packages(fedci.model.__path__, "fedci.model."))


def functions_and_classes(module):
    """Everything defined in a module, methods included."""
    here = [item for item in vars(module).values() if getattr(item, "__module__", None) == module.__name__]
    methods = [method for item in here if inspect.isclass(item) for method in vars(item).values()]
    return [item for item in (*here, *methods) if callable(item) and hasattr(item, "__annotations__")]


@pytest.mark.parametrize("name", MODULES)
def test_every_annotation_can_be_evaluated(name):
    """A dimension's name must stay a string: `Float[Array, n]` is a NameError that switches the check off unseen."""
    module = import_module(name)
    unreadable = {}
    for item in functions_and_classes(module):
        try:
            typing.get_type_hints(inspect.unwrap(item))
        except Exception as problem:
            unreadable[item.__qualname__] = str(problem)
    assert not unreadable


def test_wrong_shapes_are_refused():
    """In every folder of the model."""
    with pytest.raises(TypeCheckError, match="values"):
        basis.root({}, jnp.zeros(2))
    with pytest.raises(TypeCheckError, match="normals"):
        posterior.draw_g(posterior.SourceLevel(jnp.zeros((3, 2)), jnp.eye(3)), jnp.zeros((3, 2)))
    with pytest.raises(TypeCheckError, match="root_phi"):
        covariance.between_sources(jnp.eye(3), jnp.asarray(1.0))
    kernel = kernels.build("rbf")
    with pytest.raises(TypeCheckError):
        kernels.cross(kernel, kernel.init(3), jnp.zeros((2, 3)), jnp.zeros((2, 2)))
