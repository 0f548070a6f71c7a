"""One decision: what it refuses a real opening refuses, what it advises a real opening accepts; commands ask it too."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fedci import Source, Study
from fedci.coordinator import coordinator
from fedci.coordinator.talk import Talk
from fedci.errors import DisclosureError, FedciError, StudyError
from fedci.protocol.course import Contract
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Refusal, Step
from fedci.site import admission
from fedci.site.admission import Situation, admit, advice, reasons
from fedci.site.floors import VARIABLE
from fedci.site.release import release
from fedci.site.site import Site
from fedci.study.options import preset_names
from fedci.study.policy import POLICIES, SECURE_SUM_SITES, policy
from support.commanded import told
from tests_support import STANDARD_OTHERWISE, Wire

QUICK = {"optimiser": {"rounds": 20}}
FLOORS = policy(STANDARD_OTHERWISE)


@pytest.fixture(autouse=True)
def no_policy_of_a_site(monkeypatch):
    """Tests of the network, which may run before these in the same process, name one for all their sites."""
    monkeypatch.delenv(VARIABLE, raising=False)


def people(rows: int, treated: int, columns: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng((seed, 17))
    frame = pd.DataFrame(rng.normal(size=(rows, columns)), columns=[f"x{k}" for k in range(columns)])
    return frame.assign(w=np.repeat([1, 0], [treated, rows - treated]), y=rng.normal(size=rows))


def plan(columns: int, **changes) -> Study:
    """Without landmarks, but where a preset is asked for: sums of fewer columns may be of fewer people."""
    if "preset" not in changes:
        options = changes.get("options", {})
        changes |= {"options": options | {"model": {"landmarks": 0} | options.get("model", {})}}
    return Study(**({"treatment": "w", "outcome": "y", "covariates": [f"x{k}" for k in range(columns)],
                     "diagnostics": {"enabled": False}, "policy": STANDARD_OTHERWISE} | changes))


def of(rows: int, treated: int, columns: int, sites: int, floors=None, **changes) -> Situation:
    study = plan(columns, **changes).under(floors)
    return Situation(site="site-0", study=study, options=study.fit_options(), rows=rows, treated=treated,
                     columns=columns, sites=sites)


def opened(asked: Situation) -> FedciError | None:
    """A real opening by the site's own functions, up to the fit: the first error, or none. All sites are alike."""
    frame = people(asked.rows, asked.treated, asked.columns)
    study = asked.study.under(None)
    if len(study.covariates) != asked.columns:
        study = Study.model_validate(study.model_dump() | {"covariates": [f"x{k}" for k in range(asked.columns)]})
    try:
        coordinator.check_available(study.policy, asked.sites)
        here = study.under(asked.study.floors)
        sites = {name: Site(here, Source(name, frame).read(here)) for name in
                 (f"site-{k}" for k in range(asked.sites))}
        talk = Talk(InProcessEngine(sites), "run")
        contract = Contract(study, tuple(sorted(sites)))
        coordinator.handshake(talk, contract)
        coordinator.open_course(talk, contract)
    except FedciError as problem:
        return problem
    return None


# --- check refuses if and only if an opening does


changes = st.fixed_dictionaries({}, optional={
    "min_rows": st.sampled_from([10, 50, 60]), "min_arm_rows": st.sampled_from([10, 20, 30]),
    "statistics_per_row": st.sampled_from([0.1, 0.33, 0.6]),
    "max_parameters_per_row": st.sampled_from([0.3, 1.0, 40.0]), "secure_sum": st.sampled_from([True, False, "auto"]),
    "max_rounds": st.sampled_from([20, 150, 200, 300]),
    "site_effects": st.booleans(), "allow_single_arm": st.booleans(),
    "min_cell": st.integers(0, 12), "numbers_per_person": st.sampled_from([0.3, 300.0])})
policies = (st.sampled_from(["standard", "simulation", "custom"])
            | changes.map(lambda table: {**STANDARD_OTHERWISE, **table})
            | changes.map(lambda table: {"name": "simulation", **table}))
floors_of = st.none() | st.just("standard") | st.just("simulation") | changes.map(lambda t: {"name": "simulation", **t})


@st.composite
def situations(draw) -> Situation:
    rows = draw(st.integers(12, 130))
    treated = draw(st.integers(0, rows) | st.just(rows // 2))
    columns, sites = draw(st.integers(1, 60) | st.integers(1, 8)), draw(st.integers(1, 4))
    given_floors = draw(floors_of)
    options = draw(st.sampled_from([{}, QUICK, {"optimiser": {"rounds": 250}}]))
    try:
        asked = of(rows, treated, columns, sites, given_floors and policy(given_floors), policy=draw(policies),
                   preset=draw(st.sampled_from(["default", "default", "classic", "paper"])), options=options)
    except StudyError:
        assume(False)
    return asked


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(situations())
def test_check_refuses_if_and_only_if_an_opening_does_and_every_advice_is_accepted(asked):
    found = reasons(asked)
    problem = opened(asked)
    assert bool(found) == (problem is not None), (found, problem)
    for one in advice(asked):
        assert reasons(one.then) == (), one.words
        if one.then.rows <= 2000 and one.then.sites <= 6:  # the rest is the same function, and takes long
            assert opened(one.then) is None, one.words
    if not found:
        admit(asked)
        assert advice(asked) == ()
    else:
        with pytest.raises(type(found[0]) if len(found) == 1 and not isinstance(found[0], DisclosureError)
                           else FedciError, match="Would be accepted|No change"):
            admit(asked)


# --- whatever a study asks for


CHECKED = {"diagnostics": {"enabled": True}}
TIMED = {"time": "t", "event": "sex", "type": "survival", "horizons": [2.0, 4.0]}
FEATURES = {
    "subgroups": CHECKED | {"subgroups": {"sex": "sex"}}, "decisions": CHECKED | {"decisions": {"along": ["x0"]}},
    "arms": {"treatment": {"name": "arm", "arms": ["a", "b", "c"]}}, "gaps": CHECKED | {"missing": "model"},
    "marks": CHECKED | {"missing": "impute"},
    "controls": {"diagnostics": {"negative_controls": [f"c{j}" for j in range(5)]}},
    "times": {"outcome": TIMED, "covariates": ["x0", "x1"]},
    "counts": {"outcome": {"name": "many", "type": "count", "exposure": "t"}},
    "two values": {"outcome": {"name": "z", "type": "binary"}}, "clusters": {"cluster": "ward"},
    "lot": CHECKED | {"design": "randomised"}, "few": {"preset": "few"}, "refuters": {
        "diagnostics": {"enabled": True, "refute": ["placebo", "subset", "random-cause"]}}}


def of_everything(seed: int, gaps: bool, rows: int = 120) -> pd.DataFrame:
    rng, k = np.random.default_rng((seed, 29)), np.arange(rows)
    made = people(rows, rows // 2, 2, seed).assign(
        sex=k % 2, z=k // 3 % 2, t=rng.uniform(0.5, 5.0, rows), many=rng.poisson(1.0, rows), ward=k // 20,
        arm=np.array(["a", "b", "c"])[k // 2 % 3], **{f"c{j}": rng.normal(size=rows) for j in range(5)})
    if gaps:
        made.loc[k % 3 == 0, "x1"] = np.nan
    return made


@pytest.mark.parametrize("asks", FEATURES)
def test_check_and_an_opening_agree_whatever_the_study_asks_for(asks):
    """Where the policy allows one number fewer for each person than the study would tell both refuse, with as many as
    it tells neither."""
    frames = {f"site-{k}": of_everything(k, asks in ("gaps", "marks")) for k in range(3)}

    def answers(allowed: float) -> tuple[tuple[FedciError, ...], FedciError | None, float]:
        limits = {"outcome_noise": 0.0, "sum_noise": 0.0, "numbers_per_person": allowed, "min_cell": 5,
                  "statistics_per_row": 10.0, "max_parameters_per_row": 10.0}
        covariates = {"x0": {}, "x1": {}, "sex": {"type": "binary"}}
        options = {} if asks == "few" else {"model": {"landmarks": 0}, "optimiser": {"rounds": 20}}
        study = Study(**({"treatment": "w", "outcome": "y", "covariates": covariates, "sites": sorted(frames),
                          "diagnostics": {"enabled": False}, "options": options,
                          "policy": STANDARD_OTHERWISE | limits} | FEATURES[asks]))
        sites = {name: Site(study, Source(name, frame).read(study)) for name, frame in frames.items()}
        asked = admission.situation(study, sites["site-0"].run.table, 3, stage=0)
        contract, talk = Contract(study, tuple(sites)), Talk(InProcessEngine(sites), "run")
        told = admission.told_per_person(asked)
        try:
            coordinator.handshake(talk, contract)
            coordinator.open_course(talk, contract)
        except FedciError as problem:
            return reasons(asked), problem, told
        return reasons(asked), None, told

    found, problem, told = answers(1e9)
    assert (found, problem) == ((), None)
    for allowed, refused in ((0.999 * told, True), (1.001 * told, False)):
        found, problem, _ = answers(allowed)
        assert bool(found) == (problem is not None) == refused, (found, problem)


def test_a_site_of_people_of_nobody_is_told_how_to_let_them_through():
    """By the study's policy they are simulated: what else would be accepted is no help to who rehearses."""
    with pytest.raises(FedciError, match="fedci site policy --base simulation --reason"):
        admit(of(140, 60, 5, 3, policy("standard"), policy=policy("simulation")))
    with pytest.raises(FedciError) as told:
        admit(of(140, 60, 5, 3, policy("standard"), policy=policy("custom")))
    assert "--base simulation" not in str(told.value)


# --- the cases that were wrong


def test_some_sixty_columns_of_117_people_under_masks():
    """In a sum of three sites they are of 217 people: check said no, as if in the clear, where the run said yes."""
    asked = of(117, 60, 14, 3)
    assert asked.model.columns == 61
    assert reasons(asked) == ()
    assert opened(asked) is None
    alone = of(117, 60, 14, 2, policy={**STANDARD_OTHERWISE, "secure_sum": "auto"})
    assert "61 columns of 117 people" in str(reasons(alone)[0])
    assert "61 columns of 117 people" in str(opened(alone))


def test_the_limit_of_columns_per_person_holds_under_masks():
    """Fails where the limit is only looked at in the clear."""
    asked = of(60, 30, 58, 3, preset="default")
    (against,) = [one for one in reasons(asked) if "columns per person" in str(one)]
    assert "in a sum of 3 sites" in str(against)
    assert asked.people == 160  # this site's, and 50 of each other
    assert "columns per person" in str(opened(asked))
    assert isinstance(opened(asked), DisclosureError)


def test_of_other_sites_only_what_all_agreed_on_is_taken_for_granted():
    """A site that asks for 500 rows knows no more of the others than the study does."""
    strict = policy({"min_rows": 500})
    assert of(600, 300, 5, 3, strict).people == 600 + 2 * 50
    assert of(600, 300, 5, 3).people == 600 + 2 * 50


def test_an_advised_preset_is_one_that_the_policy_takes():
    """'paper' asks for 2000 rounds, which `standard` does not: it was advised all the same."""
    asked = of(60, 30, 58, 3, preset="default")
    words = " ".join(one.words for one in advice(asked))
    assert "'paper'" not in words
    assert any("preset" in one.words for one in advice(of(60, 30, 25, 3, preset="default")))
    assert "paper" in preset_names()


@pytest.mark.parametrize("sites", [1, 2])
def test_under_standard_no_sum_of_fewer_than_three_sites_is_seen(sites):
    asked = of(200, 100, 4, sites, FLOORS)
    (against,) = reasons(asked)
    assert f"at least {SECURE_SUM_SITES} sites, got {sites}" in str(against)
    assert "give its people's rows away" in str(against)
    words = [one.words for one in advice(asked)]
    assert any(line.startswith("3 sites") for line in words)
    assert any('policy = "simulation"' in line and "--base simulation" in line for line in words)
    assert any('"custom"' in line and "--allow secure_sum=auto" in line for line in words)


def test_a_third_site_is_enough():
    assert reasons(of(200, 100, 4, 3, FLOORS)) == ()


# --- how many numbers are told


@pytest.mark.parametrize("preset", ["default", "classic"])
def test_under_standard_few_people_are_not_told_of_in_many_sums(preset):
    """Three sites of 170: a listener rebuilt rows from their totals. Fails where masks are taken to be enough."""
    asked = of(170, 85, 4, 3, policy="standard", preset=preset)
    against = reasons(asked)[-1]
    assert "for each; the policy allows none" in str(against)
    assert "can be solved for" in str(against)
    assert isinstance(opened(asked), DisclosureError)
    held = of(170, 85, 4, 3, POLICIES["standard"], preset=preset)
    assert "the policy allows none" in str(opened(held))  # whatever the study's author wrote


def test_the_numbers_told_are_counted_as_check_counts_them():
    """One truth: what `fedci check` lists, over the people in the sums."""
    study = plan(3, policy="standard")
    table = Source("a", people(400, 200, 3)).read(study)
    found = release(study, table, sites=3)
    asked = admission.situation(study, table, 3)
    told = sum(part.numbers for part in found.sums)
    assert f"up to {told:,} numbers in sums over {asked.people:,} people" in str(reasons(asked)[0])


def test_a_refuter_is_counted_with_its_column_more():
    """`random-cause` has one covariate more than the study, and so more numbers in every sum."""
    study = plan(2, policy="standard", diagnostics={"refute": ["random-cause", "placebo", "subset"]})
    table = Source("a", people(400, 200, 2)).read(study)
    told = sum(part.numbers for part in release(study, table, sites=3).sums)
    assert f"up to {told:,} numbers in sums" in str(reasons(admission.situation(study, table, 3))[0])


def test_what_would_be_refused_before_the_fit_is_refused_before_anything_is_told():
    """And so takes nothing of what may be told of these people: a smaller study of them may follow."""
    study = plan(3, policy="standard")
    site = Site(study, Source("site-0", people(170, 85, 3)).read(study))
    others = {name: Site(study, Source(name, people(170, 85, 3)).read(study)) for name in ("site-1", "site-2")}
    wire = Wire({"site-0": site, **others})
    talk, contract = Talk(wire, "run"), Contract(study, wire.sites)
    coordinator.handshake(talk, contract)
    with pytest.raises(DisclosureError, match="the policy allows none"):
        coordinator.open_course(talk, contract)
    steps = [reply for request, reply in wire.said if isinstance(request, Step)]
    assert steps
    assert all(isinstance(reply, Refusal) for reply in steps)


@pytest.mark.parametrize("rows", [200, 20_000, 2_000_000])
def test_under_standard_no_fit_of_exact_sums_may_be_told_whatever_the_size(rows):
    """The local bound leaves people in the tails exposed at every size (assurance/people_told.py)."""
    asked = of(rows, rows // 2, 1, 3, policy="standard", options={
        "model": {"knots": 1, "directions": 0}, "optimiser": {"rounds": 1, "draws": 1}, "prediction": {"draws": 8}})
    (against,) = reasons(asked)
    assert "the policy allows none (policy.numbers_per_person)" in str(against)
    others = [one.words for one in advice(asked) if "numbers_per_person" not in one.words]
    assert others == (["the preset 'few'"] if rows >= 20_000 else [])


def test_enough_people_may_be_told_of():
    """Where a policy lets numbers be told at all. And the advice finds how many that is."""
    asked = of(400, 200, 2, 3, policy={"name": "custom", "numbers_per_person": 0.3}, options={
        "optimiser": {"rounds": 5, "draws": 2}, "model": {"knots": 2, "directions": 1}})
    (more,) = [one for one in advice(asked) if "people here" in one.words]
    assert reasons(more.then) == ()
    fewer = replace(more.then, rows=more.then.rows - 1)
    assert reasons(fewer)
    assert any("--allow numbers_per_person=" in one.words for one in advice(replace(asked, study=asked.study.under(
        POLICIES["standard"]))))


def test_what_parties_must_agree_on_is_refused_with_the_value_the_floor_and_what_to_do():
    asked = of(200, 100, 4, 3, FLOORS, policy={**STANDARD_OTHERWISE, "secure_sum": False, "min_cell": 0})
    with pytest.raises(DisclosureError) as problem:
        admit(asked)
    told = str(problem.value)
    assert "secure_sum = false, and this site asks for true" in told
    assert "min_cell" not in told  # the site applies its own
    assert asked.study.policy.min_cell == 10
    assert "in the study's [policy] secure_sum = true" in told
    assert "fedci site policy --allow secure_sum=false" in told


def test_several_things_wrong_are_advised_together():
    asked = of(20, 10, 4, 2)
    (one,) = [line for line in advice(asked) if "simulation" not in line.words]
    assert "people here" in one.words
    assert "3 sites" in one.words
    assert reasons(one.then) == ()


def test_linkage_that_a_site_does_not_allow():
    floors = policy({"name": "simulation", "allow_linkage": False})
    asked = of(60, 30, 2, 3, floors, policy="simulation", ids=("id",))
    assert "allow_linkage = true, and this site asks for false" in str(reasons(asked)[0])


# --- the commands


def test_check_and_run_say_the_same(tmp_path, capsys):
    """Three sites of 60 people and too many columns, and the same with few."""
    for columns, code in ((60, 3), (4, 0)):
        study = plan(columns, options={"optimiser": {"rounds": 2, "draws": 2}, "prediction": {"draws": 4},
                                       "model": {"knots": 2}})
        study.write(tmp_path / "study.toml")
        for k, name in enumerate("abc"):
            people(60, 30, columns, k).to_csv(tmp_path / f"{name}.csv", index=False)
        asked = ["check", tmp_path / "study.toml", tmp_path / "a.csv", "--sites", "3"]
        assert told(capsys, *asked)[0] == code
        run = ["run", tmp_path / "study.toml", *(part for name in "abc" for part in
                                                 ("--site", f"{name}={tmp_path / name}.csv")),
               "--out", tmp_path / f"result-{columns}", "--quiet"]
        status, _, err = told(capsys, *run)
        assert status == code
        assert ("columns per person" in err) == (code == 3)


def test_two_sites_under_standard_are_refused_by_run_and_check(tmp_path, capsys):
    plan(3).write(tmp_path / "study.toml")
    people(60, 30, 3).to_csv(tmp_path / "a.csv", index=False)
    code, _, err = told(capsys, "check", tmp_path / "study.toml", tmp_path / "a.csv", "--sites", "2")
    assert code == 3
    assert "3 sites (now 2)" in err
    code, _, err = told(capsys, "run", tmp_path / "study.toml", "--site", f"a={tmp_path}/a.csv", "--site",
                        f"b={tmp_path}/a.csv", "--out", tmp_path / "result")
    assert code == 3
    assert "Let a third site take part" in err


def test_a_site_without_a_file_is_said_to_hold_to_standard(tmp_path, capsys):
    plan(3, policy="simulation").write(tmp_path / "study.toml")
    people(60, 30, 3).to_csv(tmp_path / "a.csv", index=False)
    code, out, _ = told(capsys, "check", tmp_path / "study.toml", tmp_path / "a.csv")
    assert code == 0
    assert "over a network a site holds to 'standard'" in out
    assert "secure_sum = false, and this site asks for true" in " ".join(out.split())


def test_together_knows_what_each_site_knows_of_the_others():
    study = plan(3, policy="simulation", missing="impute")
    gap = people(60, 30, 3).assign(x1=lambda f: f.x1.where(f.index > 3))
    tables = [Source("a", people(60, 30, 3)).read(study), Source("b", gap).read(study)]
    first, second = admission.together(study, tables, study.fit_options())
    assert (first.indicators, second.indicators, first.sites, first.stage) == (1, 1, 2, 0)
    assert admission.situation(study, tables[0], 2).indicators == 0
