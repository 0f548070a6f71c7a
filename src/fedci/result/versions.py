"""The versions that a result was made with."""

from __future__ import annotations

import platform
from importlib import metadata

from fedci.version import __version__

PARTS = ("jax", "jaxlib", "numpy", "scipy", "optax", "pandas", "pyarrow", "pydantic")
"""Packages whose versions a result records."""


def versions() -> dict[str, str]:
    ours = {"fedci": __version__, "python": platform.python_version()}
    return ours | {name: metadata.version(name) for name in PARTS}
