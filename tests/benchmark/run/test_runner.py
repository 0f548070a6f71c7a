"""The grid: what is finished is never repeated, what fails is a row, and every figure is what its protocol says."""

import signal
import subprocess
import sys
import time

from fedci.benchmark.run import cells, runner
from support.benchmarked import LINEAR

# --- failures


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

from fedci.benchmark.run import methods, runner
from fedci.benchmark.run.baselines import Estimate, Learner
from fedci.benchmark.run.suites import Choice


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
