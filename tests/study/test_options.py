"""Options of a fit: kernel expressions read or refused with words; presets that ship."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedci.model import kernels
from fedci.study.options import STATIONARY, ModelOptions, parse_kernel

D = 3


# ── the language of kernels ─────────────────────────────────────────────────────────────────────────────────
def test_products_bind_tighter_than_sums():
    assert parse_kernel("rbf + matern12 * matern32") == (
        "sum", ("rbf", frozenset()), ("product", ("matern12", frozenset()), ("matern32", frozenset())))
    assert parse_kernel("((rbf(ard,scale)))") == ("rbf", frozenset({"ard", "scale"}))
    assert parse_kernel("rbf\t+rbf + rbf") == ("sum", *(("rbf", frozenset()),) * 3)


@pytest.mark.parametrize(("text", "word"), [
    ("", "ends"), ("   ", "ends"), ("rbf +", "ends"), ("rbf * ", "ends"), ("(rbf", "lacks"), ("rbf(ard", "lacks"),
    ("rbf)", "')'"), ("rbf rbf", "'rbf'"), ("quadratic", "'quadratic'"), ("matern25", "matern52"), ("rbf(l)", "'l'"),
    ("rbf(ard) matern12", "'matern12'"), ("rbf - rbf", "'-'"), ("2 * rbf", "'2'"), ("RBF", "'RBF'"),
    ("rbf(ard)(ard)", "'('"), ("()", "')'"), ("rbf + + rbf", "'+'"), ("__import__('os')", "'__import__'"),
    ("π", "'π'"),
])
def test_a_broken_expression_names_what_is_wrong(text, word):
    with pytest.raises(ValueError, match=r"kernel") as problem:
        parse_kernel(text)
    assert word in str(problem.value)


@given(st.text(alphabet="rbfmaten1235(),+* \t_x"))
def test_any_text_is_read_or_refused(text):
    """As a tree that builds, or with a ValueError: nothing else."""
    try:
        tree = parse_kernel(text)
    except ValueError:
        return
    assert tree[0] in (*STATIONARY, "sum", "product")
    kernels.build(text).init(D)


def test_absurd_nesting_is_refused_like_any_other_error():
    with pytest.raises(ValueError, match="kernel"):
        parse_kernel("(" * 10**5 + "rbf" + ")" * 10**5)


@pytest.mark.parametrize("text", ["rbf()", "rbf(,)", "rbf(ard scale)", "rbf(ard,,scale)", "rbf(,ard)"])
def test_flags_are_a_list_with_commas(text):
    """The grammar in the module's docstring: name '(' flag (',' flag)* ')'."""
    with pytest.raises(ValueError, match="kernel"):
        parse_kernel(text)


def test_options_refuse_a_broken_kernel(make):
    with pytest.raises(ValueError, match="unknown kernel 'matern'"):
        ModelOptions.model_validate(make.model().options.model_dump() | {"kernel": "matern"})
