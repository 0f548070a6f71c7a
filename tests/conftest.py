"""What all tests share: shapes checked while testing, one fixed seed for hypothesis, small random models and sites."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import threading
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Each worker on a core of its own: XLA takes as many threads as it sees cores, and two workers that share two cores
# hand work to threads the other keeps waiting, hundreds of times per fit.
if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) % len(cores)]})

# A shell that starts the tests in its background ignores SIGINT for them and for every process below: some send it.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs compiled by one worker, or by a process that a test starts, serve the others.
PROGRAMS = Path(os.environ.setdefault("JAX_COMPILATION_CACHE_DIR",
                                      str(Path(__file__).parents[1] / ".pytest_cache" / "programs")))
for smallest in ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"):
    os.environ.setdefault(smallest, "0")

# Most of a test's seconds are compilation, and most of that makes programs faster which run for milliseconds here.
# `make test-all` compiles them as users do.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# Lines of ours in the programs' metadata are for profilers: without them they compile a little quicker.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

# Nor do they need XLA's newer emitters of fused loops, whose passes are four fifths of what is left (8 s of a small fit
# become 2), nor its parts for several threads to compile: a worker has one core. XLA ends a process at a flag that it
# does not know, so these are for the JAX of constraints.txt; with another, tests take longer.
QUICK, KNOWN_TO = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1", "0.10."
if os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1" and version("jaxlib").startswith(KNOWN_TO):
    os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')}".strip()

# An array stretched over an axis it does not have is an error, here and in the processes that tests start: where a
# shape is meant to be stretched, the code says so.
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")

install_import_hook("fedci.model", "beartype.beartype")

# A site's store outlives its kits: that of the tests must not be the user's own, nor that of an earlier run.
os.environ["FEDCI_SITE_STORE"] = tempfile.mkdtemp(prefix="fedci-store-")
atexit.register(shutil.rmtree, os.environ["FEDCI_SITE_STORE"], ignore_errors=True)

# derandomize: the same examples in every run. No deadline: the first example may wait for a compilation.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

pytest_plugins = ["support.fits"]

COVARIATES, SITES = 3, 3
SMALL = {
    "kernel": "rbf(ard, scale)",
    "source_kernel": "rbf(scale)",
    "posterior_kernel": "rbf(scale)",
    "mean": {"kind": "linear"},
    "source_mean": {"kind": "linear"},
    "posterior_mean": {"kind": "table"},
    "phi": {"scale": ((0.5, 0.2), (0.2, 0.4)), "dof": 4.0, "start_dof": 7.0},
    "sigma": {"scale": ((0.2, 0.05), (0.05, 0.3)), "dof": 5.0, "start_dof": 9.0},
    "weight_sd": 0.7,
    "hyper_sd": 1.3,
}


def pytest_configure(config):
    """Programs of many runs take room; JAX's own limit looks at every one of them each time it keeps another."""
    if "PYTEST_XDIST_WORKER" in os.environ or not PROGRAMS.is_dir():
        return
    if sum(path.stat().st_size for path in PROGRAMS.iterdir()) > 1 << 30:
        shutil.rmtree(PROGRAMS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Whole files to a worker, and files that look at one fit to the same."""
    from xdist.scheduler import LoadFileScheduling

    from support.fits import USERS

    together = {f"tests/{file}": fixture for fixture, files in USERS.items() for file in files}

    class ByFit(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return together.get(file, file)

    return ByFit(config, log) if config.getoption("dist") == "loadfile" else None


LONGEST = ("network/test_network.py", "across/test_docs.py", "network", "coordinator/test_replies.py",
           "across/test_times_and_counts.py", "across/test_outcomes.py", "across/test_arms.py",
           "across/test_extreme_outcomes.py", "across/attacks", "site/test_admission.py", "cli/test_demo.py",
           "protocol", "model/shared")
"""Files and folders that take longest: begun last, they would keep one worker busy while the other rests."""


def pytest_collection_modifyitems(items):
    def place(item) -> int:
        name = item.path.relative_to(Path(__file__).parent).as_posix()
        return next((number for number, part in enumerate(LONGEST) if name.startswith(part)), len(LONGEST))

    items.sort(key=place)


@pytest.fixture(autouse=True, scope="module")
def room_for_what_is_compiled():
    """Compiled functions take places in a process's memory map, of which Linux gives 65,530, and gigabytes: a worker
    that nears either forgets, after a module, what it has compiled."""
    yield
    maps, pages = Path("/proc/self/maps"), Path("/proc/self/statm")
    if maps.exists() and (maps.read_bytes().count(b"\n") > 30_000
                          or int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_MEMORY):
        import jax

        jax.clear_caches()


MOST_MEMORY = 3 << 30


def small_model(sites: int = SITES, **changes):
    """A model of three covariates; RBF kernels, so that a dense reference can be differentiated at distance 0."""
    from fedci.model.families import model_of
    from fedci.study.options import ModelOptions

    return model_of(ModelOptions.model_validate(SMALL | changes), COVARIATES, COVARIATES, sites)


def random_theta(model, seed: int = 0, spread: float = 0.3):
    """Θ away from its start, so that no parameter sits at a special value."""
    import jax.numpy as jnp

    start = np.asarray(model.first_vector(seed))
    return jnp.asarray(start + spread * np.random.default_rng(seed).standard_normal(start.shape))


def random_rows(n: int, seed: int = 0):
    """(x, w, y) with both arms where n allows it."""
    rng = np.random.default_rng(seed)
    w = rng.permutation(np.arange(n) % 2)
    return rng.standard_normal((n, COVARIATES)), w, rng.standard_normal(n) + w


def unpadded_site(x, w, y, u, index: int = 0):
    import jax.numpy as jnp

    from fedci.model.exact import ExactRows

    return ExactRows(jnp.asarray(x), jnp.asarray(w), jnp.asarray(y), jnp.ones(len(y)), jnp.asarray(u),
                     jnp.asarray(index), jnp.ones(len(y)))


def random_study(model, sizes=(3, 6, 8), seed: int = 0):
    """(rows of each site, u [m, q], padded sites) of a study with sites of different size."""
    from fedci.model.padding import pad_site

    rows = [random_rows(n, seed + s) for s, n in enumerate(sizes)]
    u = np.random.default_rng(seed + 100).standard_normal((len(sizes), model.u_dim))
    return rows, u, [pad_site(*part, u[s], s) for s, part in enumerate(rows)]


def random_spd(rng, size: int = 2) -> np.ndarray:
    root = rng.standard_normal((size, size))
    return root @ root.T + 0.1 * np.eye(size)


@pytest.fixture(scope="session")
def make():
    """The makers above: test modules cannot import a conftest."""
    return SimpleNamespace(model=small_model, theta=random_theta, rows=random_rows, unpadded=unpadded_site,
                           study=random_study, spd=random_spd)
