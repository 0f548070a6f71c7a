"""What is missing is drawn by the model: a study from its file to its effects, and in words where it cannot be."""

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI, Result, Source, Study
from fedci.errors import StudyError
from support.gaps import DRAWN, sources, table
from tests_support import fit, study


@pytest.fixture(scope="module")
def drawn() -> Result:
    return fit(sources(), **DRAWN, diagnostics={"enabled": True})


def test_the_model_has_no_columns_for_marks_but_the_diagnostics_do(drawn):
    layout = drawn.outcome.layout
    assert layout.model.covariates == 3
    assert len(layout.indicators) == 2
    assert {line.column for line in drawn.diagnostics.balance.columns} >= {"bmi missing", "sex missing"}
    assert drawn.diagnostics.missingness.columns


def test_what_was_drawn_and_what_cannot_be_told_is_said_in_words(drawn):
    said = " ".join(drawn.outcome.warnings)
    assert "site 'site-2': column 'bmi' has no value here" in said
    assert "'bmi' (" in said
    assert "no data can tell" in said


def test_effects_of_people_with_and_without_gaps_are_read_again_as_they_were(drawn, tmp_path):
    drawn.save(tmp_path / "result")
    again, people = Result.load(tmp_path / "result"), table(0, 9)
    assert people.isna().to_numpy().any()
    for site in ("site-1", None):
        np.testing.assert_allclose(again.effect(people, site), drawn.effect(people, site), rtol=1e-10)
    imputed = drawn.impute(people, "site-0", draws=4)
    assert np.isfinite(imputed.mean).all()
    assert drawn.summary()


def test_a_person_is_completed_alike_alone_and_among_others(drawn):
    people = table(0, 9)
    some = drawn.effect(people.iloc[[3]], "site-1")
    np.testing.assert_allclose(drawn.effect(people, "site-1")[3], some[0], rtol=1e-8)


@pytest.mark.parametrize(("changes", "told"), [
    ({"preset": "few"}, "the preset 'few' draws nothing"),
    ({"preset": "classic", "options": {}}, "the preset 'classic' draws nothing"),
    ({"covariates": {"age": {}, "bmi": {"missing": "impute"}}}, 'missing = "impute" and missing = "model" in one'),
    ({"outcome": {"name": "y", "type": "binary"}}, "of a binary outcome no law is known yet"),
    ({"policy": {"name": "custom", "epsilon": 1.0, "delta": 1e-6, "outcome_range": [-9.0, 9.0],
                 "effect_bound": 9.0, "noised": ["effects"]}},
     "would have to have noise")])
def test_where_nothing_can_be_drawn_the_study_says_so(changes, told):
    with pytest.raises(StudyError, match=told):
        study(**{**DRAWN, "options": {}, **changes})


def confounded(number: int, rows: int = 300) -> pd.DataFrame:
    """A confounder that is missing more often of those whom another column, and treatment, mark: at random given what
    is seen. The effect is 1 for everybody."""
    rng = np.random.default_rng((number, 77))
    seen = rng.standard_normal(rows)
    hidden = 0.7 * seen + 0.7 * rng.standard_normal(rows)
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-1.5 * hidden))).astype(int)
    y = 1.5 * hidden + 1.0 * w + 0.5 * rng.standard_normal(rows)
    gone = rng.uniform(size=rows) < 1 / (1 + np.exp(-(0.8 * seen + 1.2 * w - 0.6)))
    return pd.DataFrame({"seen": seen, "hidden": np.where(gone, np.nan, hidden), "w": w, "y": y})


@pytest.mark.slow
def test_the_average_effect_is_found_where_the_mean_and_its_mark_miss_it():
    """One replication of what `fedci.benchmark.cost.gaps` measures: within four sds of the truth, and the mean's
    farther than four."""
    plan = {"treatment": "w", "outcome": "y", "covariates": ["seen", "hidden"], "policy": "simulation",
            "diagnostics": {"enabled": False}, "preset": "default"}
    tables = [Source(f"s{number}", confounded(number)) for number in range(3)]
    by_model, by_mean = (FedCI(Study(**plan, missing=how)).fit(tables).ate() for how in ("model", "impute"))
    assert abs(by_model.mean - 1.0) < 4 * by_model.sd
    assert abs(by_mean.mean - 1.0) > 4 * by_mean.sd
