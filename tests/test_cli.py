"""The commands end to end: from files to files."""

import json

import numpy as np
import pandas as pd
import pytest

from fedci import Result, cli
from tests_support import frame, study


def told(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in arguments])
    said = capsys.readouterr()
    return left.value.code, said.out, said.err


@pytest.fixture
def files(tmp_path):
    study(options={"optimiser": {"rounds": 20}}).write(tmp_path / "study.toml")
    frame(40, 0).to_csv(tmp_path / "a.csv", index=False)
    frame(37, 1).to_parquet(tmp_path / "b.parquet")
    return tmp_path


def test_run_from_files_to_a_result(files, capsys):
    code, out, err = told(capsys, "run", files / "study.toml", "--site", f"a={files / 'a.csv'}",
                          "--site", f"b={files / 'b.parquet'}", "--out", files / "out", "--seed", 3)
    assert code == 0, err
    assert "On average treatment changes the outcome by" in out
    assert "round" in err  # the progress bar
    result = Result.load(files / "out")
    assert json.loads((files / "out" / "result.json").read_text())["seed"] == 3
    table = pd.read_csv(files / "out" / "effects.csv")
    np.testing.assert_allclose(table["mean"], result.table()["mean"], rtol=1e-12)
    assert len(pd.read_csv(files / "out" / "sites" / "b" / "people.csv")) == 37
    assert len(pd.read_csv(files / "out" / "trace.csv")) == 20


def test_quiet_leaves_no_bar(files, capsys):
    code, _, err = told(capsys, "run", files / "study.toml", "--site", f"a={files / 'a.csv'}",
                        "--site", f"b={files / 'b.parquet'}", "--out", files / "out", "--quiet")
    assert (code, err) == (0, "")


def test_check_counts_and_leaves_nothing(files, capsys):
    before = set(files.iterdir())
    code, out, _ = told(capsys, "check", files / "study.toml", files / "a.csv")
    assert code == 0
    assert "rows 40, treated 17" in out
    assert set(files.iterdir()) == before
