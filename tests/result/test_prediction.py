"""Effects of new people from a file: those of the result, chunk by chunk."""

import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedci import Result, Source
from fedci.errors import UsageError
from fedci.result.prediction import predict_file, with_rows
from support.commanded import told


# ── predict ─────────────────────────────────────────────────────────────────────────────────────────────────
def test_predictions_from_a_file_are_those_of_the_result(place, tmp_path, capsys):
    out = tmp_path / "effects.csv"
    code, said, _ = told(capsys, "predict", place / "result", place / "new.csv", "--site", "a", "--out", out, "--keep",
                         "patient")
    assert code == 0
    assert "1,300 people" in said
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    found, people = pd.read_csv(out), pd.read_csv(place / "new.csv")
    assert list(found.columns) == ["row", "patient", "effect", "sd", "low", "high"]
    assert (found.patient == people.patient).all()
    direct = Result.load(place / "result").effect_posterior(people, site="a")
    low, high = direct.interval(0.05)
    for name, values in {"effect": direct.mean, "sd": direct.sd, "low": low, "high": high}.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-8, atol=1e-9)  # ten digits are written


def test_chunks_do_not_change_a_prediction(place, tmp_path, monkeypatch):
    result = Result.load(place / "result")
    whole = predict_file(result, place / "new.csv", tmp_path / "whole.csv")
    monkeypatch.setattr("fedci.result.prediction.ROWS", 500)
    monkeypatch.setattr("fedci.table.columns.STREAM_BLOCK_BYTES", 40_000)
    parts = predict_file(result, place / "new.csv", tmp_path / "parts.csv")
    a, b = pd.read_csv(whole.path), pd.read_csv(parts.path)
    np.testing.assert_allclose(a, b, rtol=1e-8)
    pd.read_csv(place / "new.csv").to_parquet(tmp_path / "new.parquet")
    predict_file(result, tmp_path / "new.parquet", tmp_path / "parquet.csv")
    np.testing.assert_allclose(a, pd.read_csv(tmp_path / "parquet.csv"), rtol=1e-8)


def test_without_its_rows_a_site_gives_them_and_gets_the_same(place, tmp_path, capsys):
    """A coordinator's result holds no rows: at the site, its own table makes it whole again."""
    whole = Result.load(place / "result")
    bare = replace(whole, people={})
    bare.save(tmp_path / "bare")
    call = ("predict", tmp_path / "bare", place / "new.csv", "--site", "a", "--out", tmp_path / "x.csv")
    code, _, err = told(capsys, *call)
    assert code == 2
    assert "--rows TABLE" in err
    code, _, err = told(capsys, *call, "--rows", place / "a.csv", "--quiet")
    assert code == 0, err
    predict_file(whole, place / "new.csv", tmp_path / "y.csv", site="a")
    assert (tmp_path / "x.csv").read_bytes() == (tmp_path / "y.csv").read_bytes()
    other = pd.read_csv(place / "a.csv")
    other.loc[other.w.idxmax(), "w"] = 0  # as many people, one of them untreated
    for table in (place / "b.csv", other):
        with pytest.raises(UsageError, match="not the rows"):
            with_rows(bare, "a", Source("a", table))


def test_people_elsewhere_need_no_rows(place, tmp_path):
    whole = Result.load(place / "result")
    bare = replace(whole, people={})
    people = pd.read_csv(place / "new.csv")[:40]
    predict_file(bare, people, tmp_path / "x.csv")
    np.testing.assert_allclose(pd.read_csv(tmp_path / "x.csv").effect, whole.effect(people), rtol=1e-8)


def test_a_failed_prediction_leaves_no_file_and_names_the_row(place, tmp_path, capsys, monkeypatch):
    """The table's own row, of whatever chunk."""
    monkeypatch.setattr("fedci.result.prediction.ROWS", 500)
    people = pd.read_csv(place / "new.csv")
    people["age"] = people.age.astype(object)
    people.loc[700, "age"] = "old"
    people.to_csv(tmp_path / "new.csv", index=False)
    code, _, err = told(capsys, "predict", place / "result", tmp_path / "new.csv", "--out", tmp_path / "x.csv",
                        "--quiet")
    assert code == 2
    assert "'age' holds text in 1 row (first: row 701)" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv"]
