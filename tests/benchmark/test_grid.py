"""`fedci benchmark`: a wrong call is one line, a folder holds one seed."""

import pytest

from fedci.benchmark.run import methods, runner
from fedci.benchmark.run.baselines import Learner
from fedci.cli import commands
from support.benchmarked import constant


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
    (["--dataset", "ihdp-missing", "--ihdp-missing", "nowhere"], "'nowhere/ihdp_missing_npci_1.csv' cannot be read"),
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
