"""Draws side by side: the same numbers however they are shared out, and never a wait that does not end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedci.model import exact, parallel
from fedci.model.exact import ExactRows
from fedci.model.families import model_of
from fedci.model.shared import evidence
from fedci.study.options import SharedOptions

WIDE = """
import os
os.sched_setaffinity(0, range(2))  # a worker of the tests has one core
from test_parallel import halves, site
halves(site(rows=200, covariates=45), draws=64)
print("done")
"""


def site(rows: int, covariates: int) -> ExactRows:
    rng = np.random.default_rng(0)
    return ExactRows(rng.normal(size=(rows, covariates)), rng.integers(0, 2, rows), rng.normal(size=rows),
                     np.ones(rows), np.zeros(1), np.asarray(0), np.ones(rows))


def halves(people: ExactRows, draws: int):
    """Both halves of a round, and the coordinator's part between them."""
    covariates = people.x.shape[1]
    model = model_of(SharedOptions(family="shared"), covariates, covariates, 1)
    q = np.concatenate([model.prior[0], np.full(model.size, -2.0)])
    thetas = jnp.asarray(evidence.draw(q, evidence.common_normals(0, 0, draws, model.size)))
    found, kept = evidence.first_half(model, thetas, people, 1e-10)
    values, cotangents = evidence.log_evidence(found, float(len(people.y)))
    gradient = evidence.second_half(model, thetas, people, 1e-10, cotangents, kept)
    return jax.device_get((found, values, gradient, evidence.collapse(found)))


def test_a_wide_table_on_two_cores_does_not_wait_for_ever():
    """XLA waits for itself where two batches of factorisations meet on two cores: with 45 covariates it did."""
    if not hasattr(os, "sched_setaffinity") or (os.cpu_count() or 1) < 2:
        pytest.skip("needs two cores, and a system that lets a process choose them")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PJRT_", "NPROC", "XLA_"))}
    found = subprocess.run([sys.executable, "-c", WIDE], env=kept, capture_output=True, text=True, timeout=120,
                           cwd=os.path.dirname(__file__))
    assert found.stdout.split() == ["done"], found.stderr


@pytest.mark.parametrize(("count", "cores", "size"), [
    (1, 2, 1), (8, 1, 4), (8, 2, 4), (8, 4, 2), (8, 8, 2), (8, 3, 2), (8, 100, 2), (64, 2, 4), (64, 16, 4), (63, 2, 3),
    (7, 2, 7), (2, 2, 2)])
def test_parts_have_one_size_where_they_can(monkeypatch, count, cores, size):
    assert parallel.part_size(count, cores) == size
    monkeypatch.setattr(parallel, "cores", lambda: cores)
    lengths = []

    def compute(part):
        lengths.append(len(part["a"]))
        return {"b": part["a"] + 1.0, "c": part["d"]}

    draws = {"a": jnp.arange(float(count)), "d": np.arange(2.0 * count).reshape(count, 2)}
    found = parallel.over_draws(compute, draws)
    assert lengths == [size] * (count // size)
    np.testing.assert_array_equal(found["b"], np.arange(count) + 1.0)
    np.testing.assert_array_equal(found["c"], draws["d"])


@pytest.mark.parametrize(("count", "lengths"), [(8, [8]), (32, [8] * 4), (12, [6, 6]), (7, [7]), (11, [11])])
def test_a_small_site_computes_all_in_one_thread_by_the_program_of_a_round(count, lengths):
    begun, draws = [], np.arange(2.0 * count).reshape(count, 2)

    def compute(part):
        begun.append((threading.get_ident(), len(part)))
        return part + 1.0

    np.testing.assert_array_equal(parallel.over_draws(compute, draws, small=True), draws + 1.0)
    assert begun == [(threading.get_ident(), length) for length in lengths]


@pytest.mark.parametrize("rows", [exact.SMALL - 1, exact.SMALL + 1])
def test_where_a_fit_starts_its_one_draw_takes_the_program_of_a_round(rows):
    people, program = site(rows, 3), evidence._first_half.jitted
    model = model_of(SharedOptions(family="shared"), 3, 3, 1)
    thetas = evidence.draw(np.concatenate([model.prior[0], np.full(model.size, -2.0)]),
                           evidence.common_normals(0, 0, parallel.ROUND, model.size))
    round_of, _ = evidence.first_half(model, jnp.asarray(thetas), people, 1e-10)
    compiled_before = program._cache_size()
    found, _ = evidence.first_half(model, thetas[2:3], people, 1e-10)
    assert program._cache_size() == compiled_before
    jax.tree.map(lambda one, all_: np.testing.assert_array_equal(one, np.asarray(all_)[2:3]), found, round_of)


@pytest.mark.parametrize("rows", [pytest.param(exact.SMALL - 1, marks=pytest.mark.slow), exact.SMALL + 1])
def test_draws_shared_out_among_cores_give_the_same_numbers(monkeypatch, rows):
    """Parts are programs of another length: XLA may order a sum in another way, no more."""
    people, results = site(rows, 3), []
    for cores in (1, 4):
        monkeypatch.setattr(parallel, "cores", lambda cores=cores: cores)
        results.append(halves(people, draws=8))
    for other in results[1:]:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10), results[0], other)


def _compile_again():
    for program in (evidence._first_half, evidence._second_half, evidence.collapse, evidence.log_evidence):
        program.jitted.clear_cache()


@pytest.mark.slow
def test_a_gpu_takes_draws_at_once_and_finds_the_same(monkeypatch):
    """The GPU's form of the programs, run here: batches of factorisations round differently, no more."""
    people = site(30, 3)
    one_by_one = halves(people, draws=8)
    monkeypatch.setattr(parallel, "on_processor", lambda: False)
    _compile_again()
    at_once = halves(people, draws=8)
    _compile_again()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10), one_by_one, at_once)
