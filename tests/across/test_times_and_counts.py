"""Times to an event and counts from the study file to the report: one answer however it is computed."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI, Result, Source, Study, compare
from fedci.effect import EffectSums
from fedci.errors import DataError, DisclosureError, StudyError, UsageError
from fedci.report.page import write_report
from fedci.result import transport
from fedci.result.prediction import predict_file
from fedci.site.admission import reasons, situation
from fedci.table.proposal import propose
from support.mailed import Mailed

SITES = ("lyon", "oslo", "turin")
FEW = {"model": {"directions": 1, "knots": 3, "landmarks": 4, "inducing": 16}, "optimiser": {"rounds": 6, "draws": 4},
       "prediction": {"draws": 32}}
TIMED = {"time": "days", "event": "died", "type": "survival", "horizons": [2.0, 6.0]}
COUNTED = {"name": "falls", "type": "count", "exposure": "years"}
ASKED = {"subgroups": {"old": {"by": "age", "cuts": [0.0]}}, "decisions": {"along": ["age"], "better": "lower"}}


def table(number: int, rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng((31, number))
    age, w = rng.normal(size=rows), np.arange(rows) % 2
    event, censored = rng.exponential(6.0 * np.exp(0.8 * w - 0.5 * age)), rng.uniform(1.0, 12.0, rows)
    years = rng.uniform(0.5, 2.0, rows)
    return pd.DataFrame({"age": age, "drug": w, "days": np.minimum(event, censored),
                         "died": (event <= censored).astype(int), "years": years,
                         "falls": rng.poisson(years * np.exp(0.6 - 0.7 * w + 0.3 * age))})


def sources() -> list[Source]:
    return [Source(name, table(number)) for number, name in enumerate(SITES)]


def plan(outcome=TIMED, **changes) -> Study:
    return Study(**{"treatment": "drug", "outcome": outcome, "covariates": ["age"], "policy": "simulation",
                    "options": FEW} | ASKED | changes)


MASKED = {"name": "simulation", "secure_sum": True}


@pytest.fixture(scope="module")
def timed() -> Result:
    return FedCI(plan()).fit(sources())


@pytest.fixture(scope="module")
def counted() -> Result:
    return FedCI(plan(COUNTED)).fit(sources())


# --- the study


def test_other_presets_a_control_and_noise_are_refused():
    for outcome in (TIMED, COUNTED):
        with pytest.raises(StudyError, match="numeric outcomes only"):
            plan(outcome, preset="classic", options={})
        noisy = plan(outcome, policy="standard", options={})
        found = reasons(situation(noisy, Source("lyon", table(0)).read(noisy), 3))
        assert any(isinstance(one, DisclosureError) and "outcome_noise" in str(one) for one in found)
    with pytest.raises(StudyError, match="a time of its own"):
        plan(diagnostics={"negative_control": "falls"})


@pytest.mark.parametrize(("change", "outcome", "told"), [
    ({"days": -1.0}, TIMED, "'days' is negative"), ({"days": np.nan}, TIMED, "'days' has no value"),
    ({"falls": 0.5}, COUNTED, "holds no counts"), ({"years": 0.0}, COUNTED, "'years' is 0"),
    ({"died": "dead"}, TIMED, "values = { yes = 1, no = 0 }"),
    ({"drug": "given"}, TIMED, 'treatment = { name = "drug", treated = … }')])
def test_columns_that_do_not_fit_are_named(change, outcome, told):
    with pytest.raises(DataError, match=told):
        Source("lyon", table(0).assign(**change)).read(plan(outcome))


@pytest.mark.parametrize(("change", "outcome"), [({"died": 0}, TIMED), ({"days": 7.0}, TIMED),
                                                 ({"died": 1, "days": 3.0}, TIMED), ({"falls": 0}, COUNTED)])
def test_a_site_without_an_event_takes_part_and_is_told_so(change, outcome):
    """Nobody has one, nobody has one by the last horizon, everybody has: that says how rare it is. Where all sites
    are so, their sum shows it."""
    read = Source("lyon", table(0).assign(**change)).read(plan(outcome))
    assert [words.partition(": ")[2] for words in read.warnings] == [
        f"all {arm} rows have the same outcome here" for arm in ("untreated", "treated")]
    if change.get("died") != 1:
        with pytest.raises(DataError, match="constant at the site"):
            FedCI(plan(outcome)).fit([Source("lyon", table(0).assign(**change))])


def test_init_proposes_a_time_with_its_event():
    study = propose(table(0)[["age", "drug", "days", "died"]]).study
    assert (study.outcome_type, study.time, study.outcome) == ("survival", "days", "died")
    assert study.horizons[0] < table(0).days.max()
    assert [covariate.name for covariate in study.covariates] == ["age"]
    assert propose(table(0)[["age", "drug", "died"]]).study.outcome_type == "binary"


def test_init_proposes_a_count_with_its_exposure_and_no_laboratory_value():
    """Whole numbers from 0 on, by a name of what happens; a count of cells is a number, and so is what came before."""
    rows = table(0)[["age", "drug", "falls", "years"]]
    found = propose(rows)
    assert (found.study.outcome_type, found.study.outcome, found.study.exposure) == ("count", "falls", "years")
    assert "does it count events since the treatment?" in found.to_toml()
    assert Study.from_toml(found.to_toml()) == found.study
    assert propose(rows.drop(columns="years")).study.exposure is None
    cells = rows.assign(cd4_count=200 + np.arange(len(rows)) * 3, falls_before=rows.falls).drop(columns="falls")
    assert propose(cells).study.outcome_type == "numeric"


# --- one answer


def boxes(rule):
    """[leaf, level, (covariate, low, high)]: which people each leaf has, in whatever order its levels are cut."""
    return [{c: (leaf[leaf[:, 0] == c, 1].max(), leaf[leaf[:, 0] == c, 2].min()) for c in leaf[:, 0] if c >= 0}
            for leaf in np.asarray(rule)]


@pytest.mark.parametrize("outcome", [TIMED, COUNTED])
def test_masked_sums_give_what_clear_ones_do(outcome, timed, counted):
    clear, masked = timed if outcome is TIMED else counted, FedCI(plan(outcome, policy=MASKED)).fit(sources())
    np.testing.assert_allclose(masked.outcome.fit.theta, clear.outcome.fit.theta, rtol=1e-4, atol=1e-4)
    assert masked.ate().mean == pytest.approx(clear.ate().mean, abs=1e-4)
    for site in SITES:
        assert masked.ate(site).mean == pytest.approx(clear.ate(site).mean, abs=0.1 * clear.ate(site).sd)
        assert masked.ate(site).sd == pytest.approx(clear.ate(site).sd, rel=0.25)
    for part in ("subgroups", "decisions"):
        told = getattr(clear.outcome.effects, part)
        for name, numbers in getattr(masked.outcome.effects, part).items():
            if name == "rule":
                assert boxes(numbers) == boxes(told[name])
            else:
                np.testing.assert_allclose(numbers, told[name], rtol=1e-3, atol=1e-3, err_msg=name)
    if outcome is TIMED:
        one, other = masked.survival("lyon"), clear.survival("lyon")
        np.testing.assert_allclose(one.of_treated.mean, other.of_treated.mean, atol=0.01)
        assert one.rmst().difference.mean == pytest.approx(other.rmst().difference.mean, abs=0.05)


@pytest.mark.parametrize("outcome", [TIMED, COUNTED])
def test_a_fit_that_was_interrupted_goes_on_to_the_same_bits(outcome, tmp_path, timed, counted):
    def stop(seen):
        if seen.number == 4:
            raise KeyboardInterrupt

    path, whole = tmp_path / "kept.npz", timed if outcome is TIMED else counted
    with pytest.raises(KeyboardInterrupt):
        FedCI(plan(outcome)).fit(sources(), progress=stop, checkpoint=path)
    again = FedCI(plan(outcome)).fit(sources(), checkpoint=path)
    assert again.outcome.fit.theta.tobytes() == whole.outcome.fit.theta.tobytes()
    assert again.ate().means.tobytes() == whole.ate().means.tobytes()


@pytest.mark.parametrize("outcome", [TIMED, COUNTED])
def test_a_study_by_files_gives_the_same_bits(outcome, tmp_path, timed, counted):
    """Sites that start anew for every letter (codec, door, ledger, mail), and the same study in this process."""
    agreed = plan(outcome, sites=SITES, options=FEW | {"optimiser": {"rounds": 2, "draws": 4}})
    mailed = Mailed(tmp_path, agreed, {site: table(number) for number, site in enumerate(SITES)})
    mailed.go()
    found, here = mailed.found(), FedCI(agreed).fit(sources())
    assert found.outcome.fit.theta.tobytes() == here.outcome.fit.theta.tobytes()
    assert found.ate().means.tobytes() == here.ate().means.tobytes()
    assert found.contrasts().equals(here.contrasts())
    assert json.dumps(found.plain()["decisions"]) == json.dumps(here.plain()["decisions"])


@pytest.mark.parametrize("kind", ["timed", "counted"])
def test_the_result_is_read_again_with_its_people(tmp_path, kind, request):
    result = request.getfixturevalue(kind)
    result.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    assert again.ate().mean == result.ate().mean
    people = table(7, 5)
    np.testing.assert_allclose(again.effect(people, "lyon"), result.effect(people, "lyon"), rtol=1e-8)
    np.testing.assert_allclose(again.effect(people), result.effect(people), rtol=1e-8)
    assert (tmp_path / "result" / ("survival.csv" if kind == "timed" else "rates.csv")).exists()
    json.dumps(again.plain())
    people.to_csv(tmp_path / "people.csv")
    assert predict_file(again, tmp_path / "people.csv", tmp_path / "out.csv").people == 5
    assert result.study.outcome in (text := result.summary())
    assert "Survival" in text if kind == "timed" else "rate ratio" in text


def test_the_report_shows_curves_and_rates(tmp_path, timed, counted):
    for name, result, told in (("timed", timed, "Survival without died"), ("timed", timed, "Risk by arm along age"),
                               ("counted", counted, "rate ratio"), ("counted", counted, "Rate by arm along age")):
        result.save(tmp_path / name, force=True)
        write_report(tmp_path / name, f"{tmp_path / name}.html")
        assert told in (tmp_path / f"{name}.html").read_text(encoding="utf-8")


# --- what curves and rates are


def test_curves_fall_and_all_else_follows_from_them(timed):
    curves = timed.survival()
    assert curves.times[-1] == 6.0
    assert 2.0 in curves.times
    for arm in (curves.untreated, curves.treated):
        assert (np.diff(arm, axis=1) <= 1e-12).all()
        assert ((arm >= 0) & (arm <= 1)).all()
    risks = timed.risks()
    np.testing.assert_allclose(risks.treated, 1.0 - curves.treated[:, -1])
    assert timed.ate().mean == pytest.approx(-curves.difference().mean)
    assert timed.risks(time=2.0).difference.mean == pytest.approx(-curves.difference(2.0).mean)
    with pytest.raises(UsageError, match="last horizon"):
        curves.rmst(7.0)


def test_the_average_over_a_sites_people_is_that_of_its_persons(timed):
    """Of the same law, other draws of the site's own function."""
    persons = timed.people["lyon"].curves().mean(1)
    average = timed.survival("lyon")
    for arm, curve in ((0, average.untreated), (1, average.treated)):
        error = curve.std(0) / np.sqrt(len(curve)) * np.sqrt(2)
        assert (np.abs(persons[..., arm].mean(0) - curve.mean(0)) < 5 * error + 0.01).all()


def test_sums_over_sites_are_those_of_each(timed, counted):
    for result in (timed, counted):
        sums = result.outcome.effects.sums
        name = "survival" if result.of_times else "rates"
        total = {part: sum(own[part] for own in sums.values()) for part in ("people", name)}
        assert EffectSums((total,)).expected().mean == pytest.approx(result.ate().mean)


def test_rates_are_per_unit_of_exposure(counted):
    frame = pd.concat([table(number) for number in range(len(SITES))])
    crude = [frame.falls[frame.drug == arm].sum() / frame.years[frame.drug == arm].sum() for arm in (0, 1)]
    rates = counted.rates()
    assert rates.of_untreated.mean == pytest.approx(crude[0], rel=0.3)
    assert rates.of_treated.mean == pytest.approx(crude[1], rel=0.3)
    assert rates.ratio.quantile(0.5) < 1.0


def test_counts_of_many_thousands_keep_within_the_range_of_masked_sums():
    """60,000 a year, Poisson: what each tells grows with r, and so does its unit. The ratio
    of rates is e^−0.5; 180 counts of r above 30 know it to 3 % (2/√(180 · 30) = 0.027)."""
    def many(number: int) -> pd.DataFrame:
        rows = table(number)
        mean = rows.years * np.exp(11.0 - 0.5 * rows.drug + 0.3 * rows.age)
        return rows.assign(falls=np.random.default_rng(number).poisson(mean))

    rounds = FEW | {"optimiser": {"rounds": 60, "draws": 4}}
    result = FedCI(plan(COUNTED, policy=MASKED, options=rounds, decisions=None)).fit(
        [Source(name, many(number)) for number, name in enumerate(SITES)])
    assert result.rates().ratio.quantile(0.5) == pytest.approx(np.exp(-0.5), rel=0.03)
    low, high = result.rates().ratio.interval()
    assert high - low < 0.1


# --- in whom, and whom to treat


@pytest.mark.parametrize("kind", ["timed", "counted"])
def test_subgroups_add_up_to_everybody_and_have_ratios(kind, request):
    """Rows of who is in a group, summed over two groups that everybody is in one of: what sites tell of everybody, draw
    by draw, for the same function is drawn."""
    result = request.getfixturevalue(kind)
    told, sums = result.outcome.effects.subgroups, result.outcome.effects.sums
    name = "survival" if kind == "timed" else "rates"
    everybody = sum(part[name][..., 0] for part in sums.values())
    both = 180.0 - everybody[:, :, -1] if kind == "timed" else everybody
    np.testing.assert_allclose(told["effects"].sum(2), both, rtol=1e-6)
    table, made = result.subgroups(), result.groups
    assert table.people.sum() == 180
    part = made.risks("age below 0") if kind == "timed" else made.rates("age below 0")
    assert table.ratio[0] == part.ratio.quantile(0.5)
    assert ("odds_ratio" in table) == (kind == "timed")
    assert 0 < table.ratio_low[0] < table.ratio[0] < table.ratio_high[0]


@pytest.mark.parametrize("kind", ["timed", "counted"])
def test_line_and_rule_are_of_the_sums_and_a_time_has_no_values(kind, request):
    result = request.getfixturevalue(kind)
    told, found = result.outcome.effects.decisions, result.decisions
    line = found.projection().set_index("along")["mean"]
    assert line["average"] == pytest.approx(result.ate().mean, abs=2.0 * abs(line["age"]), rel=1e-9)
    np.testing.assert_allclose(told["leaf_effects"].sum(2), told["projected"][:, :, 0], rtol=1e-6)
    assert found.rule()
    assert found.has_scores == (kind == "counted")
    assert ("a study of 0 and 1 (the event by then)" in result.summary()) == (kind == "timed")
    assert (result.plain()["decisions"]["values"] is None) == (kind == "timed")


def test_what_a_policy_on_counts_is_worth_is_in_their_units(counted):
    """Of treating everybody beside nobody: the pooled doubly robust effect, of rates; a lower one is better."""
    worth = counted.decisions.values().set_index("policy")
    pooled = counted.diagnostics.heterogeneity.pooled.mean
    assert worth.over_nobody["treat everybody"] == pytest.approx(-pooled, rel=2e-3)
    everybody = pd.concat([source.data for source in sources()])
    untreated = everybody[everybody.drug == 0]
    assert worth.value["treat nobody"] == pytest.approx((untreated.falls / untreated.years).mean(), rel=0.4)


@pytest.mark.parametrize("kind", ["timed", "counted"])
def test_other_people_have_the_average_of_their_effects(kind, request):
    """Weights stand beside the model where sites tell doubly robust effects: not of a time."""
    result = request.getfixturevalue(kind)
    there = table(9, 40).assign(age=lambda rows: rows.age + 0.5)[["age"]]
    found = transport.of_people(result, there)
    assert found.effect.mean == pytest.approx(float(np.mean(result.effect(there))), rel=1e-9)
    assert (found.weighted is None) == (kind == "timed")
    assert transport.of_moments(result, {"age": 0.5}).plain()["verdict"]["words"]


# --- beside each other, and refuted


def test_two_results_of_a_kind_are_compared_and_another_horizon_is_another_question(timed, counted):
    for result in (timed, counted):
        same = compare(result, result)
        assert same.same_question
        assert {pair.difference for pair in same.pairs} == {0.0}
    later = compare(timed, replace(timed, study=plan(TIMED | {"horizons": [2.0, 9.0]})))
    assert not later.same_question
    assert later.settings["horizons"] == ([2.0, 6.0], [2.0, 9.0])
    assert not compare(timed, counted).same_question
    assert not compare(counted, replace(counted, study=plan(COUNTED | {"exposure": "days"}))).same_question


@pytest.mark.parametrize("outcome", [TIMED, COUNTED])
def test_a_placebo_treatment_does_less_than_the_treatment(outcome, timed, counted):
    """Who is treated is drawn anew at the sites: that effect's own interval is about 0, the study's is not. The study
    itself keeps its bits, and, of a lot, has the plain difference beside it."""
    control = {"negative_control": "calls"} if outcome is COUNTED else {}
    result = FedCI(plan(outcome, design="randomised", diagnostics={"refute": ["placebo"]} | control)).fit(
        [Source(source.name, source.data.assign(calls=np.arange(60) // 2 % 4)) for source in sources()])
    whole = timed if outcome is TIMED else counted
    assert result.ate().means.tobytes() == whole.ate().means.tobytes()
    rows = result.diagnostics.refuters
    assert [row.name for row in rows] == ["placebo", *(["negative-control"] if control else [])]
    for row in rows:
        assert row.estimate.low < 0 < row.estimate.high
        assert abs(row.estimate.mean) < abs(result.ate().mean)
    lot = result.diagnostics.trial
    assert lot.people == (90, 90)
    assert abs(lot.plain.mean - result.ate().mean) < 3.0 * lot.plain.se
    assert ("percentage points" in result.summary()) == (outcome is TIMED)


def test_diagnostics_know_the_type(timed, counted):
    for result in (timed, counted):
        known = result.diagnostics
        assert known is not None
        assert known.fit is not None
        assert known.sensitivity is not None
        assert known.sensitivity.e_value >= 1.0
        assert not known.notes
        assert known.fit.calibration
    (verdict,) = timed.diagnostics.follow_up.verdicts
    gone = [sum(int(((t.drug == arm) & (t.days < 6.0)).sum()) for t in map(table, range(3))) for arm in (0, 1)]
    assert timed.diagnostics.follow_up.horizons[-1].people == tuple(90 - n for n in gone)
    assert "were followed until then" in verdict.words
    assert counted.diagnostics.follow_up is None
