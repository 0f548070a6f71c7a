"""A study of an outcome of 0 and 1, from its file to its report: one answer, whichever way its messages travel."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from typer.testing import CliRunner

from fedci import FedCI, Result, Source, Study, compare, predict_file, write_report
from fedci.cli.commands import app
from fedci.coordinator.coordinator import run_study
from fedci.errors import DataError, DisclosureError, StudyError, UsageError
from fedci.protocol import optimise
from fedci.protocol.requests import REQUESTS
from fedci.result import transport
from fedci.site import opening
from fedci.site.release import release
from fedci.table.problems import problems
from fedci.table.proposal import propose
from support.mailed import Mailed
from tests_support import SMALL, Wire, frame, study

SITES = ("lyon", "oslo", "turin")
FEW = SMALL | {"optimiser": SMALL["optimiser"] | {"rounds": 9}}
BINARY = {"name": "died", "type": "binary"}
OPEN = {"name": "simulation"}
MASKED = {"name": "simulation", "secure_sum": "auto"}


def table(number: int, rows: int = 36) -> pd.DataFrame:
    """A hospital's table in which treatment raises the log odds by about 1."""
    made, rng = frame(rows, number), np.random.default_rng((number, 5))
    risk = expit(0.06 * (made["age"] - 60) + 1.0 * made["w"] - 0.5)
    died = (rng.uniform(size=rows) < risk).astype(int)
    died[:2] = 0, 1
    return made.drop(columns="y").assign(died=died)


def sources() -> list[Source]:
    return [Source(site, table(number)) for number, site in enumerate(SITES)]


def plan(**changes) -> Study:
    return study(**({"outcome": BINARY, "preset": "default", "options": FEW, "sites": SITES} | changes))


ASKED = {"diagnostics": {}, "subgroups": {"sex": "sex", "old": {"by": "age", "cuts": [60.0]}},
         "decisions": {"along": ["age", "sex"], "better": "lower", "cost": 0.02}}


@pytest.fixture(scope="module")
def clear() -> Result:
    return FedCI(plan(policy=OPEN, **ASKED)).fit(sources())


@pytest.fixture(scope="module")
def masked() -> Result:
    return FedCI(plan(policy=MASKED, **ASKED)).fit(sources())


# --- the study


def test_the_type_is_part_of_the_study_and_of_its_file(tmp_path):
    numeric, binary = study(), study(outcome=BINARY, preset="default")
    assert (binary.outcome, binary.outcome_type) == ("died", "binary")
    assert 'outcome = { name = "died", type = "binary" }' in binary.to_toml()
    assert Study.from_toml(binary.to_toml()) == binary
    assert binary.hash() != study(outcome="died", preset="default").hash()
    assert study(outcome={"name": "y"}).hash() == numeric.hash()


@pytest.mark.parametrize(("outcome", "told"), [
    ({"name": "died", "type": "binery"}, "did you mean 'binary'"), ({"type": "binary"}, "the key 'name' is missing"),
    ({"name": "died", "kind": "binary"}, "unknown key 'kind'"),
    ({"time": "days", "event": "died", "type": "survival", "horizons": 30}, "'horizons': needs a list, in brackets")])
def test_a_mistake_in_the_outcome_is_named(outcome, told):
    with pytest.raises(StudyError, match=told):
        study(outcome=outcome, preset="default")


def test_other_presets_and_differential_privacy_refuse_it():
    with pytest.raises(StudyError, match="the preset 'classic' knows numeric outcomes only. Choose the preset"):
        study(outcome=BINARY)
    with pytest.raises(StudyError, match="where sums have noise.*a policy of name = .custom."):
        plan(preset="few", options={}, policy="standard")
    with pytest.raises(StudyError, match="'paper' knows numeric"):
        FedCI(plan(options={}), preset="paper")
    with pytest.raises(StudyError, match="no differential privacy of a binary outcome"):
        plan(policy={"name": "custom", "epsilon": 1.0, "delta": 1e-6, "noised": ["effects"], "effect_bound": 1.0})


def test_a_column_of_0_and_1_is_no_number_and_the_error_says_what_to_write():
    wrong = plan(outcome="died")
    with pytest.raises(DataError, match=r'Write outcome = \{ name = "died", type = "binary" \}'):
        sources()[0].read(wrong)
    assert len(problems(wrong, sources()[0])) == 1
    with pytest.raises(DataError, match="holds values other than 0 and 1 in 36 rows"):
        Source("lyon", table(0).assign(died=np.arange(36) + 2)).read(plan())
    for column in ("died", "sex"):
        with pytest.raises(DataError, match="values = { yes = 1, no = 0 }"):
            Source("lyon", table(0).assign(**{column: "yes"})).read(plan())


def test_a_small_cell_of_events_is_refused():
    few = table(2)
    few["died"] = (few.index == few.index[few["w"] == 1][0]).astype(int)
    policy = {"name": "simulation", "min_cell": 5}
    with pytest.raises(DisclosureError, match="hold one of the outcome's two values"):
        FedCI(plan(policy=policy)).fit([*sources()[:2], Source("turin", few)])


def test_an_arm_without_an_event_is_said_at_the_site_alone():
    rows = table(0)
    read = Source("lyon", rows.assign(died=np.where(rows["w"] == 1, 0, rows["died"]))).read(plan())
    assert "site 'lyon': all treated rows have the same outcome here" in read.warnings
    assert opening._without_few(SimpleNamespace(study=plan(policy={"name": "simulation", "min_cell": 5})),
                                read.warnings) == []


def test_a_site_without_an_event_lowers_the_risk(clear):
    """Lyon's rows are the other sites' people, none of whom died: its risks fall, and all sites' with them."""
    rows = sources()
    none = FedCI(plan(policy=OPEN, diagnostics={})).fit([Source("lyon", table(0).assign(died=0)), *rows[1:]])
    assert none.risks("lyon").of_untreated.mean < 0.5 * clear.risks("lyon").of_untreated.mean
    assert none.risks().of_untreated.mean < clear.risks().of_untreated.mean
    with pytest.raises(DataError, match="the outcome 'died' is constant at all 3 sites: there is no effect"):
        FedCI(plan(policy=OPEN)).fit([Source(site, table(k).assign(died=0)) for k, site in enumerate(SITES)])


def test_init_proposes_the_type_that_the_column_holds():
    found = propose(table(0).rename(columns={"died": "death_30d"}))
    assert (found.study.outcome, found.study.outcome_type) == ("death_30d", "binary")
    assert "0 and 1: effects are differences of risks" in found.to_toml()
    assert propose(frame(36, 0)).study.outcome_type == "numeric"


@pytest.mark.slow  # model/shared/test_latent_blocks.py: sums and gradients of the two are equal
def test_a_site_above_exact_rows_computes_the_same_through_inducing_inputs():
    """All 60 rows induce (model.inducing = 64): the objective to 1e-6, average risks to the error of 8 draws."""
    found = [FedCI(plan(sites=(), options=FEW | {"model": FEW["model"] | {"exact_rows": most}})).fit(
        [Source("lyon", table(0, 60))]) for most in (50, 60)]
    objectives = [result.outcome.fit.objective for result in found]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-4)
    assert found[0].ate().mean == pytest.approx(found[1].ate().mean, abs=found[1].ate().sd)


# --- one answer


def test_masked_sums_give_what_clear_ones_do(clear, masked):
    """Masked sums are fixed point of 2⁻⁴⁰ or finer: their rounding moves an optimiser's path by less than 1e-5 in nine
    rounds."""
    np.testing.assert_allclose(masked.outcome.fit.objective, clear.outcome.fit.objective, rtol=1e-6)
    for population in ("all", "treated", "control"):
        for name in ("untreated", "treated"):
            np.testing.assert_allclose(getattr(masked.risks(population=population), name),
                                       getattr(clear.risks(population=population), name), atol=1e-4)


def test_a_site_that_tells_averages_tells_of_the_same_risks(clear, masked):
    """Under masks a site's own means and covariances over the draws; their draws are Gaussian on the scale of log odds:
    means to 0.01, sds to a tenth."""
    for site in SITES:
        apart, own = clear.risks(site), masked.risks(site)
        for name in ("of_untreated", "of_treated", "difference"):
            one, other = getattr(apart, name), getattr(own, name)
            assert abs(one.mean - other.mean) < 0.01
            assert abs(other.sd / one.sd - 1.0) < 0.1
        assert (own.untreated > 0).all()
        assert (own.treated < 1).all()


def test_a_fit_that_was_interrupted_goes_on_to_the_same_bits(tmp_path, clear):
    def stop(seen):
        if seen.number == 6:
            raise KeyboardInterrupt

    agreed, path = plan(policy=OPEN, **ASKED), tmp_path / "kept.npz"
    with pytest.raises(KeyboardInterrupt):
        FedCI(agreed).fit(sources(), progress=stop, checkpoint=path)
    again = FedCI(agreed).fit(sources(), checkpoint=path)
    assert again.outcome.fit.theta.tobytes() == clear.outcome.fit.theta.tobytes()
    assert again.risks().treated.tobytes() == clear.risks().treated.tobytes()


def test_the_state_of_the_optimiser_is_whole_on_disk():
    state = optimise.init(FedCI(plan()).study.fit_options().optimiser, np.zeros(4), 3)
    state = state._replace(anchor=np.arange(3.0), latest=np.arange(2.0), before=-7.5)
    back = optimise.unpack(state.options, 3, optimise.pack(state))
    assert (back.anchor.tolist(), back.latest.tolist(), back.before) == ([0.0, 1.0, 2.0], [0.0, 1.0], -7.5)


def test_a_study_by_files_gives_the_same_bits(tmp_path):
    """Sites that start anew for every letter, masks, and the in-process fit of the same study."""
    agreed = plan(policy=MASKED, options=FEW | {"optimiser": FEW["optimiser"] | {"rounds": 2}}, **ASKED)
    mailed = Mailed(tmp_path, agreed, {site: table(number) for number, site in enumerate(SITES)})
    mailed.go()
    here = FedCI(agreed).fit(sources())
    found = mailed.found()
    assert found.risks().treated.tobytes() == here.risks().treated.tobytes()
    assert found.subgroups().equals(here.subgroups())
    assert json.dumps(found.plain()["decisions"]) == json.dumps(here.plain()["decisions"])


def test_what_is_asked_holds_no_number_and_what_is_told_is_sums(clear):
    """A step has a name and the last sum; the answers are those of the table of requests, foreseen by `release`."""
    agreed = plan(policy=OPEN)
    estimator = FedCI(agreed)
    wire = Wire(estimator.sites([source.read(agreed) for source in sources()]))
    run_study(wire, agreed, link_secret=b"0" * 32)
    told = {request.name: reply.sums for request, reply in wire.said if hasattr(request, "previous")}
    assert set(told["AskRisks"]) == {"risks", "people"}
    assert "AskSharedEffects" not in told
    foreseen = {(part.phase, part.name): part.shape for part in release(agreed, sources()[0].read(agreed)).sums}
    assert foreseen["effects", "risks"] == told["AskRisks"]["risks"].shape
    assert REQUESTS["AskRisks"].leaves(secure=True) == {"masked"}


def test_the_anchor_was_moved_and_the_objective_rose(clear):
    objectives = [one.objective for one in clear.outcome.fit.rounds]
    assert objectives[-1] > objectives[0] + 1.0
    assert clear.outcome.fit.anchor.size


# --- in whom, and whom to treat


def test_masked_subgroups_and_decisions_are_those_in_the_clear(clear, masked):
    for part in ("subgroups", "decisions"):
        told = getattr(clear.outcome.effects, part)
        for name, numbers in getattr(masked.outcome.effects, part).items():
            np.testing.assert_allclose(numbers, told[name], rtol=1e-3, atol=1e-3, err_msg=name)


def test_groups_add_up_and_each_has_its_ratio_odds_ratio_and_number_needed(clear):
    """The same function is drawn for the groups as for everybody: sums over both sexes are those over all, to the bits
    of a sum."""
    told = clear.outcome.effects.subgroups
    everybody = sum(part["risks"][..., 0] for part in clear.outcome.effects.sums.values())
    for pair in ([0, 1], [2, 3]):
        np.testing.assert_allclose(told["effects"][:, :, pair].sum(2), everybody, rtol=1e-6)
    table = clear.subgroups().set_index("group")
    risks = clear.groups.risks("sex = 1")
    assert table.ratio["sex = 1"] == pytest.approx(float(np.median(risks.treated / risks.untreated)), rel=1e-12)
    assert table.odds_ratio["sex = 1"] == risks.odds_ratio.quantile(0.5)
    needed = risks.number_needed()
    assert np.isnan(table.needed["sex = 1"]) if needed is None else table.needed["sex = 1"] == needed[0]
    assert clear.contrasts().ratio_low.notna().all()


def test_a_policy_is_worth_the_doubly_robust_risk_under_it(clear):
    """Of treating everybody and nobody: the difference is the pooled doubly robust effect; an average risk."""
    found = clear.decisions
    values = found.values().set_index("policy")
    nobody, everybody = values.value["treat nobody"], values.value["treat everybody"]
    assert 0 < nobody < 1
    assert everybody - nobody == pytest.approx(clear.diagnostics.heterogeneity.pooled.mean, rel=2e-3)
    assert values.over_nobody["treat everybody"] == pytest.approx(nobody - everybody - 0.02, rel=1e-9)
    assert found.same == clear.diagnostics.sameness.probability
    assert clear.plain()["decisions"]["values"]


def test_other_people_have_the_average_of_their_risk_differences(clear):
    there = table(7, 50)[["age", "bmi", "sex"]].assign(sex=1)
    found = transport.of_people(clear, there)
    assert found.effect.mean == pytest.approx(float(np.mean(clear.effect(there))), rel=1e-9)
    assert abs(found.weighted.mean) < 1
    assert 0 < found.worth < 108


def test_refuters_are_of_risks_and_leave_the_study_its_bits(clear):
    """And a study whose treatment a lot drew has the arms' plain difference of risks beside the model's."""
    sneezed = [source.data.assign(sneezed=np.arange(36) // 3 % 2) for source in sources()]
    refuting = ASKED | {"diagnostics": {"refute": ["placebo", "subset"], "negative_control": "sneezed"},
                        "design": "randomised"}
    result = FedCI(plan(policy=OPEN, **refuting)).fit(
        [Source(site, rows) for site, rows in zip(SITES, sneezed, strict=True)])
    assert result.risks().treated.tobytes() == clear.risks().treated.tobytes()
    placebo, subset, control = result.diagnostics.refuters
    assert placebo.estimate.low < 0 < placebo.estimate.high
    assert control.estimate.low < 0 < control.estimate.high
    assert all(-1 <= end <= 1 for row in (placebo, subset, control) for end in row.estimate.model_dump().values())
    everybody = pd.concat([source.data for source in sources()])
    one, none = (everybody.died[everybody.w == arm].mean() for arm in (1, 0))
    assert result.diagnostics.trial.plain.mean == pytest.approx(one - none, abs=1e-3)


# --- what is made of it


def test_effects_are_differences_of_risks_and_all_else_follows(clear):
    risks = clear.risks()
    np.testing.assert_array_equal(clear.ate().means, risks.treated - risks.untreated)
    assert clear.att().mean == clear.risks(population="treated").difference.mean
    for values in (risks.untreated, risks.treated, clear.risk_posterior(table(0), "lyon").treated):
        assert ((values >= 0) & (values <= 1)).all()
    np.testing.assert_allclose(risks.ratio.means, risks.treated / risks.untreated)
    row = clear.risk_table().iloc[0]
    assert row["difference"] == clear.ate().mean
    assert row["ratio"] == pytest.approx(float(np.median(risks.treated / risks.untreated)), rel=0.02)


def test_the_average_over_a_sites_people_is_that_of_its_persons(clear):
    """Sums over people draw f^s of all together, persons each alone: the same mean, to 4 standard errors of 32 draws in
    antithetic pairs."""
    own = clear.ite("lyon")["cate"].mean()
    assert abs(own - clear.ate("lyon").mean) < 4.0 * clear.ate("lyon").sd / np.sqrt(32)


def test_what_numbers_have_and_0_and_1_have_not_is_said(clear):
    for ask in (lambda: clear.ate(of="ite"), lambda: clear.impute(table(0), "lyon"), clear.sensitivity,
                lambda: clear.effect_interval(table(0), outcome_noise=True)):
        with pytest.raises(UsageError, match="realised effects of an outcome of 0 and 1 are not told"):
            ask()
    with pytest.raises(UsageError, match="of numeric outcomes"):
        clear.effect_bounds(table(0), 1.5, "lyon")
    assert clear.thresholds() is None
    with pytest.raises(UsageError, match="is a number, and has no risks"):
        Result(study=study(), outcome=clear.outcome, people={}).risks()


def test_the_result_is_read_again_with_its_people(tmp_path, clear):
    clear.save(tmp_path / "result")
    back = Result.load(tmp_path / "result")
    assert back.risks("oslo").treated.tobytes() == clear.risks("oslo").treated.tobytes()
    some = table(0).head(3)
    assert back.effect(some, "lyon").tobytes() == clear.effect(some, "lyon").tobytes()
    kept = pd.read_csv(tmp_path / "result" / "risks.csv")
    np.testing.assert_allclose(kept["ratio"], clear.risk_table()["ratio"])
    assert {"cate", "risk_untreated", "risk_treated_high"} <= set(back.ite("lyon"))
    assert compare(clear, back).same_question
    plain = json.loads(json.dumps(back.plain()))
    assert plain["outcome_type"] == "binary"
    assert plain["risks"][0]["risk_treated"] == clear.risks().of_treated.mean


def test_predictions_hold_both_risks(tmp_path, clear):
    made = predict_file(clear, table(1), tmp_path / "out.csv", "oslo")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert made.people == len(rows) == 36
    for row in rows:
        treated, untreated = float(row["risk_treated"]), float(row["risk_untreated"])
        assert float(row["effect"]) == pytest.approx(treated - untreated, abs=1e-8)
        assert -1 <= float(row["low"]) <= float(row["high"]) <= 1


def test_what_all_sites_share_is_the_mean_over_a_sites_own_function(clear):
    """Over many people of nobody, the mean over the draws of drawn risks is near that of expected ones."""
    x = np.random.default_rng(0).normal(size=(50, 3)) * [10, 4, 0.5] + [60, 26, 0.5]
    shared = clear.shared_effects_at(x)
    assert shared.shape == (32, 50)
    drawn = clear.effects_at(x)
    assert abs(shared.mean() - drawn.mean.mean()) < 4.0 * drawn.means.mean(1).std() / np.sqrt(32)
    assert shared.std(0).mean() < drawn.sd.mean()


def test_the_words_count_people(clear):
    said = clear.summary()
    assert "Of 100 such people, " in said
    assert "instead of" in said
    assert "Realised" not in said


def test_the_report_shows_risks(tmp_path, clear):
    clear.save(tmp_path / "result")
    page = write_report(tmp_path / "result", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text() if page is None else page.read_text()
    assert "Of 100 such people" in text
    assert "number needed to treat" in text
    assert "Risk by arm along age" in text
    assert "Risk by arm along sex" in text
    assert "nan" not in text.lower().replace("nanny", "")


def test_diagnostics_are_of_risks(masked):
    known = masked.diagnostics
    assert known.plausibility.noise_sd is None
    assert known.sensitivity.robustness is None
    assert {row.name for row in known.section("fit")} == {"convergence", "residuals", "calibration"}
    assert {row.name for row in known.section("sensitivity")} == {"E-value", "marginal sensitivity"}
    assert all(0 <= bin_.predicted <= 1 and 0 <= bin_.observed <= 1 for bin_ in known.fit.calibration)
    assert known.heterogeneity is not None
    assert known.notes == ()


def test_flips_are_known_to_the_likelihood():
    """With flips at the sites the fit goes through, and its risks stay risks."""
    policy = {"name": "simulation", "outcome_noise": 0.3}
    sites = FedCI(plan(policy=policy)).sites([source.read(plan(policy=policy)) for source in sources()])
    noisy = sites["lyon"].party.noisy
    assert set(np.unique(noisy.y)) == {0.0, 1.0}
    assert 0.1 < noisy.added < 0.3
    result = FedCI(plan(policy=policy)).fit_sites(sites)
    assert float(result.people["lyon"].ready.rows.added) == noisy.added
    assert 0 < result.risks().of_treated.mean < 1


def test_check_knows_the_type(tmp_path):
    table(0).to_csv(tmp_path / "lyon.csv", index=False)
    plan(policy=OPEN).write(tmp_path / "study.toml")
    data = str(tmp_path / "lyon.csv")
    checked = CliRunner().invoke(app, ["check", str(tmp_path / "study.toml"), data])
    assert checked.exit_code == 0, checked.output
    assert "risks" in checked.output
    plan(policy=OPEN, outcome="died").write(tmp_path / "wrong.toml")
    refused = CliRunner().invoke(app, ["check", str(tmp_path / "wrong.toml"), data])
    assert refused.exit_code != 0
    assert 'type = "binary"' in str(refused.exception)
