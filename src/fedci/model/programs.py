"""Programs compiled quickly and kept between runs, and one thread of BLAS for each.

Most of a small study's first seconds are XLA's compiler. On a processor it is told (`compiled`) to do without its newer
emitters of fused loops and with fewer passes of LLVM: half the seconds, and what comes runs as fast, for most of it is
matrix products and factorisations, which come compiled.

They depend on shapes and settings, not on data, so they are kept in the user's cache folder: `fedci/programs-…`, one
for each version and processor (a program may use instructions another processor lacks). JAX_COMPILATION_CACHE_DIR
names another place, JAX_ENABLE_COMPILATION_CACHE=false keeps none. A folder others can write to is not used: programs
in it are run.

Matrices here are small and many: work is shared out by draws (`model.parallel`), and each factorisation stays on one
core. BLAS' own threads would wait for each other, most of all on a machine with other work: measured, six
times slower. Where OPENBLAS_NUM_THREADS or MKL_NUM_THREADS is set, that stands.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
from collections.abc import Callable, Sequence
from functools import cached_property, update_wrapper
from importlib.metadata import version
from pathlib import Path
from typing import Any

THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
FRESH = {"JAX_ENABLE_COMPILATION_CACHE": "false"}
"""Of a benchmark's process: its seconds are those of a first run, compilation included."""
LEAST_SECONDS = 0.1
"""Of compiling, for a program to be kept."""
MOST_BYTES = 256 << 20
"""Of all programs kept; the longest unused go first."""
QUICK: dict[str, bool | int] = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
KNOWN_TO = "0.10."
"""jaxlib that knows QUICK: with an option that it does not know, XLA compiles nothing."""


class Compiled:
    """A function as XLA's program, compiled as `options` says: decided at the first call, which may find a GPU. Within
    another program, or while one is differentiated, it is a part of that one, and XLA takes no options for parts."""

    def __init__(self, function: Callable[..., Any], static: str | Sequence[str]) -> None:
        self.function, self.static = function, static
        update_wrapper(self, function)

    @cached_property
    def jitted(self) -> Any:
        import jax

        return jax.jit(self.function, static_argnames=self.static, compiler_options=options())

    @cached_property
    def part(self) -> Any:
        import jax

        return jax.jit(self.function, static_argnames=self.static)

    def __call__(self, *given: Any, **named: Any) -> Any:
        from jax._src.core import trace_state_clean  # nothing public says whether anything is being traced

        return (self.jitted if trace_state_clean() else self.part)(*given, **named)


def compiled(static: str | Sequence[str] = ()) -> Callable[[Callable[..., Any]], Compiled]:
    """`static`: arguments of which each value has a program of its own."""
    return lambda function: Compiled(function, static)


def options() -> dict[str, bool | int]:
    """For XLA; what XLA_FLAGS says stands, and so does JAX_DISABLE_MOST_OPTIMIZATIONS."""
    import jax

    given, plain = os.environ.get("XLA_FLAGS", ""), os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS", "")
    if jax.default_backend() != "cpu" or not version("jaxlib").startswith(KNOWN_TO) or plain.lower() in ("1", "true"):
        return {}
    return {name: value for name, value in QUICK.items() if name not in given}


def one_thread_each() -> None:
    """Call before JAX: it takes SciPy's BLAS, which reads the variable when it is loaded. Where it is loaded already
    (SciPy or scikit-learn were imported first), it is told; NumPy's is left alone where it is another."""
    if any(name in os.environ for name in THREADS):
        return
    os.environ[THREADS[0]] = "1"
    from threadpoolctl import ThreadpoolController

    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        if "numpy.libs" not in Path(library.filepath).parts:
            library.set_num_threads(1)


def keep() -> None:
    """Lets JAX keep programs in the cache folder, unless the user chose otherwise or there is no place for them."""
    import jax
    from platformdirs import user_cache_path

    settings: Any = jax.config  # what it holds, it learns at run time
    if settings.jax_compilation_cache_dir or not settings.jax_enable_compilation_cache:
        return
    folder = user_cache_path("fedci", appauthor=False) / f"programs-{_kind(jax.__version__)}"
    if _is_ours(folder):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_compilation_cache_max_size", MOST_BYTES)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


def _kind(version: str) -> str:
    """Of JAX and processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        flags = platform.processor()
    return hashlib.sha256(f"{version} {platform.machine()} {flags}".encode()).hexdigest()[:12]


def _is_ours(folder: Path) -> bool:
    """Made, or there, writable by this user and by no other."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return True
    private = status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return private and os.access(folder, os.W_OK)
