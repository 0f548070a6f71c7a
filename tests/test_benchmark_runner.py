"""The grid: what is finished is never repeated, what fails is a row, and every figure is what its protocol says."""

import math
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from fedci.benchmark.run import cells, methods, protocols, runner, suites
from fedci.benchmark.run.baselines import Estimate, Learner
from fedci.benchmark.run.cells import Cell
from fedci.benchmark.run.protocols import Answer, Average
from fedci.benchmark.run.suites import Choice
from fedci.cli import commands
from fedci.errors import SourceError, UsageError
from fedci.synthetic.datasets import Records, Sizes, Split, combined, synthetic
from tests_support import COVARIATES, frame

LINEAR = Choice(name="linear")


def constant(x, w, y, seed):
    """The difference of means, for everyone; with outcome models and an interval of width 2."""
    mu = [y[w == j].mean() for j in (0, 1)]

    def predict(new):
        ones = np.ones(len(new))
        effect = mu[1] - mu[0]
        return Estimate(cate=effect * ones, low=(effect - 1) * ones, high=(effect + 1) * ones, mu0=mu[0] * ones,
                        mu1=mu[1] * ones, ate=(effect, effect - 1, effect + 1))

    return predict


def broken(x, w, y, seed):
    raise ArithmeticError(f"no fit with {len(y)} rows")


@pytest.fixture
def learners(monkeypatch):
    for name, learn in {"constant": constant, "broken": broken}.items():
        monkeypatch.setitem(methods.LEARNERS, name, Learner(name, (), "", False, learn))
    monkeypatch.setitem(methods.LEARNERS, "absent", Learner("absent", ("no_such_package",), "pip install it", False,
                                                            constant))


def rows(method, counts=(1, 3), choice=LINEAR, modes=None):
    task = runner.Task(choice=choice, method=method, replication=0, counts=counts,
                       modes=modes or methods.modes_of(method), seed=0)
    return [row for row in runner.perform(task) if isinstance(row, Cell)]


def one(found, **wanted):
    (row,) = [r for r in found if all(getattr(r, name) == value for name, value in wanted.items())]
    return row


# --- protocols, by hand

def test_figures_of_the_three_protocols_by_hand():
    splits = synthetic("DATA-1", 0, sizes=Sizes(2, 5, 3, 1))
    people = combined([split.test for split in splits])
    cate = np.arange(6.0)
    answers = [Answer(part, (part - 1, part + 1), (part - 9, part + 9), part + 0.5, (part, part + 2))
               for part in np.split(cate, 2)]
    found = protocols.scores(answers, splits, [Average(1.0, 3.0, 2.0), Average(-1.0, 1.0, 2.0)])
    realised = people.y1 - people.y0
    for protocol, point, truth, low, high in (("P1", cate + 0.5, realised, cate, cate + 2),
                                              ("P2", cate, people.cate, cate - 1, cate + 1),
                                              ("P3", cate, realised, cate - 9, cate + 9)):
        figures = found[protocol]
        assert figures["pehe"] == pytest.approx(math.sqrt(sum((point - truth) ** 2) / 6))
        assert figures["ate_error"] == pytest.approx(abs(sum(point) / 6 - sum(truth) / 6))
        assert figures["coverage"] == pytest.approx(sum((low <= truth) & (truth <= high)) / 6)
        assert figures["width"] == pytest.approx(sum(high - low) / 6)
    assert (found["P2"]["ate_covered"], found["P2"]["ate_width"], found["P2"]["ate_rejects"]) == (0.5, 2.0, 0.5)
    assert "ate_covered" not in found["P3"]


def test_a_baseline_imputes_with_its_outcome_models():
    people = synthetic("DATA-1", 0)[0].test
    zeros = np.zeros(len(people))
    found = protocols.of_estimate(Estimate(cate=zeros, mu0=zeros + 1, mu1=zeros + 5), people)
    np.testing.assert_array_equal(found.imputed, np.where(people.w == 1, people.y - 1, 5 - people.y))
    assert protocols.of_estimate(Estimate(cate=zeros), people).imputed is None


# --- modes

def test_modes_of_a_baseline(learners):
    found = rows("constant")
    splits = suites.suite(LINEAR).load(0)[:3]
    people = combined([split.test for split in splits])
    effects = [s.train.y[s.train.w == 1].mean() - s.train.y[s.train.w == 0].mean() for s in splits]
    pooled = combined([split.train for split in splits])
    together = pooled.y[pooled.w == 1].mean() - pooled.y[pooled.w == 0].mean()
    expected = {"com": np.full(len(people), together), "agg": np.full(len(people), np.mean(effects)),
                "loc": np.repeat(effects, [len(split.test) for split in splits])}
    for mode, cate in expected.items():
        row = one(found, mode=mode, sources=3, protocol="P2")
        assert row.pehe == pytest.approx(np.sqrt(np.mean((cate - people.cate) ** 2)))
    assert math.isnan(one(found, mode="agg", sources=3, protocol="P2").coverage)
    assert one(found, mode="com", sources=3, protocol="P2").ate_width == pytest.approx(2.0)
    with_one = [one(found, mode=mode, sources=1, protocol="P2").pehe for mode in expected]
    assert len(set(with_one)) == 1


def small_suite() -> suites.Suite:
    """Two sources of the shape other tests fit, so that its compilation is shared."""
    def hospital(seed: int, rows: int) -> Records:
        x = frame(rows, seed)
        effect = 1 + np.sin(x["age"] / 15)
        mu0 = 0.05 * x["bmi"]
        columns = {"w": x["w"], "y": mu0 + x["w"] * effect, "y0": mu0, "y1": mu0 + effect, "mu0": mu0,
                   "mu1": mu0 + effect}
        return Records(x=x[list(COVARIATES)].to_numpy(float), **{name: np.asarray(c) for name, c in columns.items()})

    splits = [Split(hospital(s, 36), hospital(s + 5, 40), hospital(s, 36)) for s in range(2)]
    return suites.Suite(label="small", load=lambda replication: splits, counts=(1, 2), most=2)


def test_fedci_in_its_modes_and_each_fit_is_made_once(monkeypatch):
    made = []
    fit = methods.fedci_fit
    monkeypatch.setattr(methods, "fedci_fit", lambda variant, splits, *a, **k: made.append(len(splits)) or fit(
        variant, splits, *a, **k))
    quick = methods.Variant("classic", {"optimiser": {"rounds": 5}, "prediction": {"draws": 8}})
    monkeypatch.setitem(methods.OURS, "FedCI", quick)
    found = [row for row in methods.cells("FedCI", small_suite(), 0, (1, 2), methods.FEDCI_MODES, 0)
             if isinstance(row, Cell)]
    assert sorted(made) == [1, 1, 2, 2]  # two sources alone, both federated, both combined
    assert len({one(found, mode=mode, sources=1, protocol="P1").pehe for mode in ("fed", "com", "loc")}) == 1
    assert len({one(found, mode=mode, sources=2, protocol="P2").pehe for mode in ("fed", "com", "loc")}) == 3
    row = one(found, mode="fed", sources=2, protocol="P3")
    assert row.rounds == 5
    assert row.bytes > 1000
    assert 0 < row.coverage <= 1


def test_the_limit_is_better_than_the_difference_of_means(learners):
    best, plain = rows("oracle", (5,)), rows("constant", (5,))
    assert one(best, protocol="P2").pehe < 0.7 * one(plain, protocol="P2", mode="com").pehe


# --- failures

def test_what_fails_is_a_row_that_says_why(learners):
    found = rows("broken")
    assert {row.failed for row in found} == {"ArithmeticError: no fit with 50 rows", "ArithmeticError: no fit with "
                                             "150 rows"}
    assert len(found) == 6
    assert {row.failed for row in rows("absent")} == {"absent needs no_such_package, not installed here: "
                                                      "pip install it"}


def test_a_process_that_dies_costs_its_row_only(tmp_path):
    """In a real child process, which registers a method that kills it."""
    script = tmp_path / "die.py"
    script.write_text(DEADLY, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=120,
                          check=False)
    assert done.returncode == 0, done.stderr
    found = cells.read(tmp_path / runner.CELLS)
    assert {row.method for row in found if row.failed == runner.DIED} == {"fatal"}
    assert {row.replication for row in found if row.method == "ends well" and not row.failed} == {0, 1}


DEADLY = """
import os, signal, sys
from pathlib import Path

import numpy as np

from fedci.benchmark import methods, runner
from fedci.benchmark.baselines import Estimate, Learner
from fedci.benchmark.suites import Choice


def fatal(x, w, y, seed):
    os.kill(os.getpid(), signal.SIGKILL)


def well(x, w, y, seed):
    return lambda new: Estimate(cate=np.zeros(len(new)))


for name, learn in (("fatal", fatal), ("ends well", well)):
    methods.LEARNERS[name] = Learner(name, (), "", False, learn)

if __name__ == "__main__":
    plan = runner.Plan(choices=[Choice(name="linear")], methods=["fatal", "ends well"], replications=2, counts=(1,))
    runner.run(runner.tasks(plan, set()), Path(sys.argv[1]), 1)
"""


# --- resuming

def test_only_what_is_missing_is_run(tmp_path, learners):
    plan = runner.Plan(choices=[LINEAR], methods=["constant"], replications=3, counts=(1, 3))
    todo = runner.tasks(plan, set())
    assert [task.replication for task in todo] == [0, 1, 2]
    cells.append(tmp_path / runner.CELLS, runner.perform(todo[0]))
    left = runner.tasks(plan, runner.finished(tmp_path, retry=False))
    assert [task.replication for task in left] == [1, 2]
    more = runner.tasks(runner.Plan(choices=[LINEAR], methods=["constant"], replications=1, counts=(1, 3, 5)),
                        runner.finished(tmp_path, retry=False))
    assert [task.counts for task in more] == [(5,)]


def test_failures_are_tried_again_when_asked(tmp_path, learners):
    plan = runner.Plan(choices=[LINEAR], methods=["broken"], replications=1, counts=(1,))
    cells.append(tmp_path / runner.CELLS, runner.perform(runner.tasks(plan, set())[0]))
    assert runner.tasks(plan, runner.finished(tmp_path, retry=False)) == []
    assert len(runner.tasks(plan, runner.finished(tmp_path, retry=True))) == 1


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    """A real run, ended by SIGINT after its first rows; the second run adds only what was missing."""
    command = [sys.executable, "-m", "fedci.cli.commands", "benchmark", "--dataset", "linear", "--methods", "oracle",
               "--replications", "600", "--sources", "1", "--out", str(tmp_path), "--quiet"]
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    path = tmp_path / runner.CELLS
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGINT)
    assert "interrupted" in first.communicate(timeout=60)[1]
    assert first.returncode == 130
    before = cells.read(path)
    assert 0 < len(before) < 600 * 3
    assert subprocess.run(command, timeout=120, check=False).returncode == 0
    after = cells.read(path)
    assert after[:len(before)] == before
    assert sorted(row.replication for row in after if row.protocol == "P2") == list(range(600))


def test_a_line_cut_short_is_dropped_and_written_over(tmp_path, learners):
    path, found = tmp_path / "cells.csv", rows("constant", (1,))
    cells.append(path, found)
    path.write_bytes(path.read_bytes()[:-9])
    assert len(cells.read(path)) == len(found) - 1
    cells.append(path, found[-1:])
    assert [row.protocol for row in cells.read(path)] == [row.protocol for row in found]


def test_rows_survive_the_file(tmp_path):
    row = Cell(dataset="data-1", method="GP T-learner (ARD)", mode="com", sources=3, replication=7, protocol="P2",
               pehe=1.25, ate_error=0.5, failed='said "no", twice')
    cells.append(tmp_path / "cells.csv", [row])
    (back,) = cells.read(tmp_path / "cells.csv")
    assert repr(back) == repr(row)


def test_a_file_that_holds_something_else_is_named(tmp_path):
    path = tmp_path / "cells.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(SourceError, match="no file of benchmark results"):
        cells.read(path)


def test_the_last_row_of_a_key_counts():
    key = {"dataset": "data-1", "method": "BART", "mode": "com", "sources": 1, "replication": 0}
    failed = Cell(**key, protocol="P2", failed="no")
    first = [Cell(**key, protocol="P2", pehe=1.0), Cell(**key, protocol="P1", pehe=2.0)]
    again = [Cell(**key, protocol="P2", pehe=3.0), Cell(**key, protocol="P1", pehe=4.0)]
    assert [row.pehe for row in cells.latest([*first, *again])] == [3.0, 4.0]
    assert [row.pehe for row in cells.latest([failed, *again])] == [3.0, 4.0]
    assert [row.failed for row in cells.latest([*first, failed])] == ["no"]


# --- data sets

@pytest.mark.parametrize("name", [name for name in suites.NAMES if not name.startswith("ihdp")])
def test_every_generator_has_its_sources_and_truth(name):
    suite = suites.suite(Choice(name=name))
    splits = suite.load(0)
    assert len(splits) == suite.most == 5
    assert {len(split.train) for split in splits} == {50}
    if name == "null":
        assert not any(split.test.cate.any() for split in splits)


def test_variations_have_labels_of_their_own():
    labels = {Choice(name="data-1").label, Choice(name="data-1", reading="std").label,
              Choice(name="data-1", rows=200).label, Choice(name="data-1", parameters="per-replication").label}
    assert labels == {"data-1", "data-1/std", "data-1/200-rows", "data-1/per-replication"}
    assert len(suites.suite(Choice(name="data-1", rows=200)).load(0)[0].train) == 200


@pytest.mark.parametrize("choice, words", [
    (Choice(name="data-3"), "Known: data-1"), (Choice(name="linear", reading="std"), "no such variation"),
    (Choice(name="ihdp", rows=70), "no such variation"),
])
def test_data_sets_that_do_not_exist(choice, words):
    with pytest.raises(UsageError, match=words):
        suites.suite(choice)


def test_constant_covariates_stay_out_of_a_study():
    splits = synthetic("DATA-1", 0)[:2]
    for split in splits:
        split.train.x[:, 3] = 1.0
    assert np.flatnonzero(~suites.varying(splits)).tolist() == [3]


# --- the command

def told(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        commands.main(["benchmark", *map(str, arguments)])
    said = capsys.readouterr()
    return left.value.code, said.out, said.err


@pytest.mark.parametrize("arguments, words", [
    (["--dataset", "data-7"], "no data set 'data-7'"),
    (["--methods", "brat"], "no method 'brat', did you mean 'bart'?"),
    (["--modes", "fed,all"], "'all' is none of fed, com, loc, agg"),
    (["--sources", "1,many"], "needs numbers separated by commas"),
    (["--sources", "9", "--methods", "oracle"], "data-1 has 1 to 5 sources"),
    (["--reading", "sd"], "needs variance or std"),
    (["--dataset", "ihdp", "--ihdp", "nowhere"], "cannot be read as an IHDP replicate"),
])
def test_a_wrong_call_is_one_line_and_leaves_nothing(arguments, words, tmp_path, capsys):
    code, _, err = told(capsys, *arguments, "--out", tmp_path / "out")
    assert code == 2
    assert err.count("\n") == 1
    assert words in err
    assert not (tmp_path / "out" / runner.CELLS).exists()


def test_a_missing_package_names_what_brings_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(methods.LEARNERS, "BART", Learner("BART", ("no_such_package",), "pip install it", False,
                                                          constant))
    code, _, err = told(capsys, "--methods", "bart", "--out", tmp_path)
    assert code == 2
    assert "BART needs no_such_package, not installed here: pip install it" in err
    assert "pip install it" in told(capsys, "--list")[1]


def test_a_folder_holds_one_seed(tmp_path, capsys):
    arguments = ["--dataset", "linear", "--methods", "oracle", "--replications", 1, "--sources", 1, "--out", tmp_path]
    assert told(capsys, *arguments)[0] == 0
    code, _, err = told(capsys, *arguments, "--seed", 3)
    assert code == 2
    assert "made with --seed 0, not 3" in err


def test_tables_versions_and_command_are_written(tmp_path, capsys):
    code, out, err = told(capsys, "--dataset", "linear", "--dataset", "null", "--methods", "oracle",
                          "--replications", 2, "--sources", 1, "--jobs", 2, "--out", tmp_path)
    assert code == 0, err
    assert "tables.md" in out
    assert "left" in err  # the bar
    assert "parametric limit" in (tmp_path / "tables.md").read_text(encoding="utf-8")
    noted = (tmp_path / runner.RUNS).read_text(encoding="utf-8")
    assert '"jax"' in noted
    assert "fedci benchmark --dataset linear --dataset null --methods oracle --replications 2" in noted
