"""What is missing is drawn by the model: one answer however it is computed, and in words where it cannot be."""

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI, Result, Source, Study
from fedci.coordinator import coordinator
from fedci.coordinator.talk import Talk
from fedci.errors import StudyError
from fedci.model.completion import copies
from fedci.protocol import course
from fedci.protocol.course import Contract
from fedci.site.site import Site
from support.masked import SECURE, one_round
from tests_support import Wire, fit, frame, small, study

SIZES = (40, 37, 39)
DRAWN = {"preset": "default", "missing": "model", "options": small(6)}


def table(number: int, rows: int, lacks: tuple[str, ...] = ("bmi", "sex")) -> pd.DataFrame:
    """Values are missing more often of the old, and at the last site a column altogether."""
    made, rng = frame(rows, number), np.random.default_rng((number, 5))
    made["sex"] = made["sex"].astype(float)
    for column in lacks:
        made.loc[rng.uniform(size=rows) < 0.1 + 0.4 * (made.age > 60), column] = np.nan
    if number == 2:
        made["bmi"] = np.nan
    return made


def sources(order=(0, 1, 2)) -> list[Source]:
    return [Source(f"site-{number}", table(number, SIZES[number])) for number in order]


@pytest.fixture(scope="module")
def drawn() -> Result:
    return fit(sources(), **DRAWN, diagnostics={"enabled": True})


def opened(agreed, tables):
    """(talk, contract, what all know, (L, ∇L) of the first round) of sites with these tables."""
    sites = {source.name: Site(agreed, source.read(agreed)) for source in tables}
    talk, contract = Talk(Wire(sites), "run"), Contract(agreed, tuple(sorted(sites)))
    coordinator.handshake(talk, contract)
    talk, known = coordinator.open_course(talk, contract)
    talk.follow(course.design(contract, known))
    known = talk.follow(course.completed(contract, known))
    return talk, contract, known, one_round(talk, contract, known)


@pytest.fixture(scope="module")
def clear():
    return opened(study(**DRAWN), sources())


def test_where_nothing_is_missing_a_study_has_the_bits_that_it_has_without_the_key():
    whole = [Source(f"site-{k}", frame(rows, k)) for k, rows in enumerate(SIZES)]
    with_key, without = (opened(study(**{**DRAWN, "missing": missing}), whole) for missing in ("model", "refuse"))
    assert not with_key[2].laws.size
    assert with_key[3][0] == without[3][0]
    np.testing.assert_array_equal(with_key[3][1], without[3][1])


def test_masked_sums_give_the_laws_and_the_round_that_clear_ones_do(clear):
    """Sums under masks are exact to 2⁻⁷³ of a number, and those of a round to 1e-7 of the objective."""
    masked = opened(study(**DRAWN, policy=SECURE), sources())
    np.testing.assert_allclose(masked[2].laws, clear[2].laws, rtol=1e-8, atol=1e-10)
    assert masked[3][0] == pytest.approx(clear[3][0], rel=1e-6)
    np.testing.assert_allclose(masked[3][1], clear[3][1], rtol=1e-4, atol=1e-4)


def test_neither_the_order_of_sites_nor_that_of_people_changes_what_is_drawn(clear):
    rng = np.random.default_rng(0)
    mixed = [Source(source.name, source.data.iloc[rng.permutation(len(source.data))]) for source in sources((2, 0, 1))]
    again = opened(study(**DRAWN), mixed)
    np.testing.assert_allclose(again[2].laws, clear[2].laws, rtol=1e-8, atol=1e-10)  # sums in another order
    assert again[3][0] == pytest.approx(clear[3][0], rel=1e-9)


def test_each_draw_sees_a_copy_of_its_own_and_nobody_who_lacks_nothing_is_changed(clear):
    talk, contract, known, _ = clear
    assert len(known.laws) == copies(contract.options)
    for number in range(3):
        site = talk.engine.local[f"site-{number}"]
        ready, x = site.run.prepared, site.run.table.x
        whole = ~np.isnan(x).any(1)
        assert ready.own.shape == (len(known.laws), *x.shape)
        np.testing.assert_array_equal(ready.own[:, whole] - ready.units.filled(x[whole])[None], 0.0)
        of_draws = ready.rows.local(ready.model, None, 6, False)
        for draw in range(6):
            copy = np.asarray(ready.rows.copy(draw).x)
            np.testing.assert_array_equal(np.asarray(of_draws.x)[draw], copy)
            np.testing.assert_array_equal(copy[:len(x)], ready.own[draw % len(known.laws)])


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
                 "noised": ["effects"]}},
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
    """One replication of what `fedci.benchmark.cost.completing` measures: within four sds of the truth, and the mean's
    farther than four."""
    plan = {"treatment": "w", "outcome": "y", "covariates": ["seen", "hidden"], "policy": "simulation",
            "diagnostics": {"enabled": False}, "preset": "default"}
    tables = [Source(f"s{number}", confounded(number)) for number in range(3)]
    by_model, by_mean = (FedCI(Study(**plan, missing=how)).fit(tables).ate() for how in ("model", "impute"))
    assert abs(by_model.mean - 1.0) < 4 * by_model.sd
    assert abs(by_mean.mean - 1.0) > 4 * by_mean.sd
