"""Programs compiled quickly and kept between runs, and BLAS' threads: in processes of their own, where they are decided
at the start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedci.model import programs

FIT = """
import numpy as np
from tests_support import COVARIATES, frame, small
from fedci import FedCI, Source, Study
import jax
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
study = Study(treatment="w", outcome="y", covariates=dict.fromkeys(COVARIATES, {}), policy="simulation",
              options=small(3), diagnostics={"enabled": False})
found = [FedCI(study, seed=0).fit([Source("lyon", frame(40, seed))]).ate().mean.hex() for seed in {seeds}]
print(jax.config.jax_compilation_cache_dir, *found)
"""
THREADS = """
import os
os.sched_setaffinity(0, range(os.cpu_count()))  # a worker of the tests has one core, and BLAS then one thread anyway
{first}
import fedci.model, scipy.linalg
from threadpoolctl import threadpool_info
print([one["num_threads"] for one in threadpool_info() if "scipy.libs" in one["filepath"]])
"""


def run(code: str, **environment: str) -> str:
    quick = "JAX_DISABLE_MOST_OPTIMIZATIONS"
    kept = {name: value for name, value in os.environ.items()
            if name == quick or not name.startswith(("JAX_", "OPENBLAS_", "MKL_"))}
    found = subprocess.run([sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True,
                           timeout=300, cwd=Path(__file__).parents[1])
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def files(folder: str) -> set[str]:
    return {path.name for path in Path(folder).glob("*-cache")}


class TestCompiledQuickly:
    @pytest.mark.parametrize(("flags", "plain", "known", "expected"), [
        ("", "", "0.10.2", programs.QUICK), ("--xla_dump_to=x", "0", "0.10.2", programs.QUICK), ("", "1", "0.10.2", {}),
        ("", "", "0.11.0", {}),
        ("--xla_backend_optimization_level=3", "", "0.10.2", {"xla_cpu_use_fusion_emitters": False})])
    def test_where_it_is_known_and_the_user_said_nothing_else(self, monkeypatch, flags, plain, known, expected):
        monkeypatch.setattr(programs, "version", lambda name: known)
        monkeypatch.setenv("XLA_FLAGS", flags)
        monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", plain)
        assert programs.options() == expected

    def test_a_gpu_compiles_as_it_does(self, monkeypatch):
        monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "")
        monkeypatch.setattr("jax.default_backend", lambda: "gpu")
        assert programs.options() == {}

    def test_this_xla_knows_what_it_is_told(self):
        """With an unknown option it would compile nothing."""
        code = ("from fedci.model.programs import compiled, options; "
                "print(len(options()), compiled()(lambda x: x + 1.0)(1.0))")
        known = programs.version("jaxlib").startswith(programs.KNOWN_TO)
        told = run(code, XLA_FLAGS="", JAX_DISABLE_MOST_OPTIMIZATIONS="0").split()
        assert told == [str(len(programs.QUICK) if known else 0), "2.0"]

    def test_within_another_program_it_is_a_part(self):
        """XLA takes no options for parts; with arguments that are traced, and with others."""
        code = ("import jax; from fedci.model.programs import compiled; f = compiled()(lambda x: x + 1.0); "
                "print(jax.jit(lambda x: f(x) + f(2.0))(1.0), jax.grad(lambda x: f(x) ** 2)(1.0), "
                "jax.vmap(jax.jit(f))(jax.numpy.ones(2)).sum(), f(1.0))")
        assert run(code, XLA_FLAGS="", JAX_DISABLE_MOST_OPTIMIZATIONS="0").split() == ["5.0", "4.0", "4.0", "2.0"]


class TestProgramsKept:
    def test_hold_no_data_and_give_the_same_bits(self, tmp_path):
        """The key of a program is a hash of all it holds: other data of the same shape find every program there."""
        folder, first = run(FIT.replace("{seeds}", "[1]"), XDG_CACHE_HOME=str(tmp_path)).split()
        assert Path(folder).is_relative_to(tmp_path)
        kept = files(folder)
        assert len(kept) > 5
        again, same, other = run(FIT.replace("{seeds}", "[1, 2]"), XDG_CACHE_HOME=str(tmp_path)).split()
        assert (again, same) == (folder, first)
        assert other != first
        assert files(folder) == kept

    def folder(self, **environment: str) -> str:
        return run("import fedci.model, jax; print(jax.config.jax_compilation_cache_dir)", **environment)

    def test_nobody_else_may_write_where_they_are_kept(self, tmp_path):
        folder = self.folder(XDG_CACHE_HOME=str(tmp_path))
        assert Path(folder).stat().st_mode & 0o777 == 0o700
        Path(folder).chmod(0o770)
        assert self.folder(XDG_CACHE_HOME=str(tmp_path)) == "None"

    @pytest.mark.parametrize(("said", "expected"), [
        ({"JAX_ENABLE_COMPILATION_CACHE": "false"}, "None"), ({"JAX_COMPILATION_CACHE_DIR": "elsewhere"}, "elsewhere")])
    def test_the_user_decides(self, tmp_path, said, expected):
        assert self.folder(XDG_CACHE_HOME=str(tmp_path), **said) == expected
        assert not (tmp_path / "fedci").exists()

    def test_no_place_for_them_is_no_obstacle(self, tmp_path):
        (tmp_path / "file").write_text("")
        assert self.folder(XDG_CACHE_HOME=str(tmp_path / "file")) == "None"


class TestThreads:
    @pytest.mark.parametrize("first", ["", "import scipy.linalg", "import jax, scipy.stats"])
    def test_one_whoever_loaded_blas_first(self, first):
        """Threads of BLAS made a fit six times slower where SciPy was imported before fedci."""
        assert run(THREADS.replace("{first}", first)) == "[1]"

    def test_the_user_decides(self):
        assert run(THREADS.replace("{first}", ""), OPENBLAS_NUM_THREADS="2") == "[2]"
