"""A result that is blinded, and its opening; thresholds in the data's units."""

from dataclasses import replace

import numpy as np
import pytest

from fedci import Result
from fedci.diagnostics.findings import Diagnostics
from fedci.errors import UsageError
from fedci.model.shared.thresholds import Known, Threshold
from tests_support import frame, made_result, study

ASK = [lambda r: r.ate(), lambda r: r.att(), lambda r: r.table(), lambda r: r.sensitivity(), lambda r: r.drivers(),
       lambda r: r.thresholds(),
       lambda r: r.effect(frame(3, 1)), lambda r: r.ite("site-0"), lambda r: r.ate_interval(),
       lambda r: r.impute(frame(3, 1), "site-0"), lambda r: r.effect_bounds(frame(3, 1), 2.0, "site-0")]


@pytest.mark.parametrize("ask", ASK)
def test_a_blinded_result_answers_no_question_about_effects(blinded, ask):
    with pytest.raises(UsageError, match="sealed until somebody has read the diagnostics"):
        ask(blinded())


def test_a_blinded_summary_and_its_files_do_not_tell_the_effect(blinded, refuted, tmp_path):
    one = blinded()
    ate = f"{refuted.ate().mean:.4g}"
    assert "sealed" in one.summary()
    assert ate not in one.summary() + str(one.diagnostics)
    assert (one.plain()["effects"], one.plain()["blinded"]) == (None, True)
    refuted.save(tmp_path / "out")
    one.save(tmp_path / "out", force=True)
    left = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert left == {"result.json", "arrays.npz", "trace.csv", "diagnostics.json", "sites/site-0/rows.npz",
                    "sites/site-1/rows.npz"}
    kept = Diagnostics.read(tmp_path / "out" / "diagnostics.json")
    assert kept.blinded
    assert kept.sensitivity is None
    back = Result.load(tmp_path / "out")
    assert back.blinded
    with pytest.raises(UsageError, match="sealed"):
        back.ate()


def test_opening_is_recorded_and_needs_a_reason_where_there_is_a_problem(blinded, refuted, tmp_path, monkeypatch):
    monkeypatch.setattr(Diagnostics, "problems", ())
    one = blinded()
    with pytest.raises(UsageError, match="say who"):
        one.unblind("  ")
    one.unblind("A. Statistician")
    assert one.ate().mean == refuted.ate().mean
    assert one.diagnostics == refuted.diagnostics
    one.save(tmp_path / "out")
    back = Result.load(tmp_path / "out")
    assert not back.blinded
    assert back.opened == one.opened
    assert set(one.opened) == {"at", "by", "reason"}
    with pytest.raises(UsageError, match=r"open already, by A. Statistician"):
        back.unblind("B")
    monkeypatch.setattr(Diagnostics, "problems", refuted.diagnostics.verdicts[:1])
    with pytest.raises(UsageError, match="balance before adjustment"):
        blinded().unblind("A")
    assert blinded().unblind("A", "known and accepted").opened["reason"] == "known and accepted"
    with pytest.raises(UsageError, match="not blinded"):
        refuted.unblind("A")


def test_trying_to_open_tells_nothing_of_the_effect(blinded, monkeypatch):
    """Problems of the sealed diagnostics only: that the E-value is one says that the interval excludes zero."""
    asked = []
    monkeypatch.setattr(Diagnostics, "problems", property(lambda self: asked.append(self.blinded) or ()))
    blinded().unblind("A")
    assert asked == [True]


@pytest.mark.parametrize("site", [None, "site-0"])
def test_nobody_to_predict_for_is_said_in_words(refuted, site):
    with pytest.raises(UsageError, match="has no rows"):
        refuted.effect(frame(3, 1).iloc[:0], site)


def test_thresholds_are_told_in_the_datas_units_along_numeric_columns_that_were_told(monkeypatch):
    plan = study(preset="default")
    result = made_result(plan, {"a": frame(40, 0), "b": frame(30, 1)})
    layout, asked = result.outcome.layout, []

    def found(self, draws, columns, alpha, pair=None):
        asked.append((list(columns), alpha))
        return [Threshold(of="effect", column=1, place=Known(0.5, 0.0, 1.0), change=Known(-1.0, -2.0, -0.5),
                          probability=0.97)]

    monkeypatch.setattr(type(layout.model), "thresholds", found)
    table = result.thresholds(0.1)
    mean, sd, y_sd = layout.scales.x_mean[1], layout.scales.x_sd[1], layout.scales.y_sd
    assert table.to_dict("records") == [{
        "of": "effect", "covariate": "bmi", "place": mean + sd * 0.5, "place_low": mean, "place_high": mean + sd,
        "change": -y_sd, "change_low": -2 * y_sd, "change_high": -y_sd / 2, "probability": 0.97}]
    hidden = replace(result, outcome=replace(result.outcome, layout=replace(layout, withheld=np.arange(3) == 0)))
    hidden.thresholds()
    assert asked == [([0, 1], 0.1), ([1], 0.05)]  # sex is 0/1; age stayed at the sites
    with pytest.raises(UsageError, match="no error rate"):
        result.thresholds(2.0)


def test_the_papers_model_tells_no_thresholds(classic):
    assert classic.thresholds() is None
