"""`fedci run`: from files to files, and what names a site's data."""

import json

import numpy as np
import pandas as pd
import pytest

from fedci import Result
from fedci.cli import fitting
from fedci.errors import UsageError
from support.commanded import told
from tests_support import frame, study


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


def test_each_site_has_one_file():
    found = fitting._by_site("--site", ["a=x.csv", "b=sql:q=1.sql"], "DATA", "a.csv")
    assert found == {"a": "x.csv", "b": "sql:q=1.sql"}
    for given, words in ((["a"], "needs NAME=DATA"), (["=x"], "needs NAME=DATA"), (["a=x", "a=y"], "repeated")):
        with pytest.raises(UsageError, match=words):
            fitting._by_site("--site", given, "DATA", "a.csv")


def test_names_of_columns_belong_to_a_site_that_is_given(tmp_path):
    with pytest.raises(UsageError, match="no --site of that name"):
        fitting._sources(study(), ["a=x.csv"], [f"b={tmp_path}"])
