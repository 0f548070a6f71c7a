"""A site answers only what it foresaw: a coordinator that lies can stop a study, and one that listens sees no site.

Rows C1, C1b, C2, H1, H6 and H7 of the review of version 0.1.0, each against real doors under the policy `standard`.
"""

from dataclasses import replace

import numpy as np
import pytest

from fedci.coordinator import coordinator
from fedci.coordinator.talk import Talk
from fedci.errors import DisclosureError, HandshakeError, SiteError
from fedci.protocol import course
from fedci.protocol.course import Contract
from fedci.protocol.messages import Hello, Reply, Step
from fedci.protocol.requests import MASKED, REQUESTS, diagnostic
from fedci.version import __version__
from support.doors import NAMES, Doors, people, plan
from tests_support import STANDARD_OTHERWISE


@pytest.fixture
def doors(tmp_path):
    """Makes an engine over doors; ledgers are closed at the end."""
    made = []

    def make(study, tables):
        made.append(Doors(study, tables, tmp_path / str(len(made))))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def tables(names=NAMES, rows=170):
    return {name: people(rows + 7 * k, k) for k, name in enumerate(names)}


def opened(engine, study, run="run", names=NAMES):
    """(talk, contract, what all know) before the design."""
    talk, contract = Talk(engine, run), Contract(study, tuple(sorted(names)))
    coordinator.handshake(talk, contract)
    return (*coordinator.open_course(talk, contract), contract)


def fitted(engine, study, run):
    talk, known, contract = opened(engine, study, run)
    talk.follow(course.design(contract, known))
    return coordinator.fit_theta(talk, contract, known, None, coordinator.load(None, None, run))


def test_no_message_carries_a_number_that_a_coordinator_could_choose():
    """C1: centre, spread, coefficients and intercepts of the propensity model were its word. A step has a name and the
    sum before it, which the sites' check binds."""
    assert {name for name in Step.__dataclass_fields__} == {"run", "round", "site", "name", "previous"}
    assert {row.message for row in REQUESTS.values() if row.summed} == {Step}
    assert set(Hello.__dataclass_fields__) == {"run", "round", "site", "version", "study_hash", "sites", "refuter"}


def test_a_step_out_of_turn_or_asked_twice_is_refused(doors):
    """C1, C1b: no second balance, no propensity at other coefficients: whatever is asked, the site answers its own
    next question or nothing."""
    study = plan()
    engine = doors(study, tables())
    talk, _, _ = opened(engine, study)
    number, foreseen = talk.round + 1, {diagnostic("propensity"), course.BEGIN}  # diagnostics may be given up
    for name in REQUESTS:
        if REQUESTS[name].message is Step and name not in foreseen:
            answer = engine.exchange({"lyon": Step("run", number, "lyon", name, {})})["lyon"]
            assert not isinstance(answer, Reply), name
    first = Step("run", number, "lyon", diagnostic("propensity"), {})
    assert isinstance(engine.exchange({"lyon": first})["lyon"], Reply)
    again = replace(first, previous={"total": np.zeros(3, np.int64)})
    assert not isinstance(engine.exchange({"lyon": again})["lyon"], Reply)


def test_a_sum_that_the_sites_did_not_send_is_refused_at_every_step(doors):
    """The next question follows from the sums, so a liar would lead it by a false one: one integer more is enough to
    be found, in the opening and in the diagnostics as in the fit."""
    study = plan()
    engine = doors(study, tables())

    class Lying:
        sites = engine.sites

        def __init__(self, at):
            self.at = at

        def exchange(self, requests):
            def told(request):
                if isinstance(request, Step) and request.name == self.at and "total" in request.previous:
                    total = request.previous["total"].copy()
                    total[0] += 1
                    return replace(request, previous={"total": total})
                return request
            return engine.exchange({name: told(request) for name, request in requests.items()})

    for k, step in enumerate(("AskMeans", "AskSpreads", "Prepare", diagnostic("balance"), "PullBack")):
        with pytest.raises(SiteError, match="not what the sites sent"):
            fitted(Lying(step), study, f"run-{k}")


def test_what_is_summed_has_no_coordinate_of_a_site(doors):
    """C2: intercept columns singled sites out inside a sum over all. The answers' shapes know covariates, draws and
    parameters, but of sites only for the model that compares sites by their moments."""
    assert [name for name, row in REQUESTS.items() for array in row.answer if "sites" in array.shape] == [
        "AskDescription"] * 2
    study = plan()
    engine = doors(study, tables())
    talk, known, contract = opened(engine, study)
    talk.follow(course.design(contract, known))
    first = talk.totals[diagnostic("propensity")].sums
    assert first["hessian"].shape == (4, 4)
    left = [entry for entry in engine.doors["lyon"].ledger.entries if entry["request"].startswith("Ask")]
    own = {name for entry in left for name in entry["sums"] if name != MASKED}
    assert own == {"own/people", "own/intercept"}


@pytest.mark.parametrize("declared", ["binary", "numeric"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_trait_of_few_people_enters_no_sum_however_it_is_declared(doors, declared, count):
    """C2, H7: the first Hessian was ¼Σzzᵀ, whose row of a rare trait is the row of the only person who has it. Now the
    column is withheld everywhere before anything is summed: the sums are those of a study where nobody has it."""
    covariates = {"age": {}, "bmi": {}, "sex": {"type": "binary"}, "rare": {"type": declared}}
    study = plan(covariates=covariates, policy=STANDARD_OTHERWISE | {"outcome_noise": 0.0})  # an equality of sums
    sums = []
    for holders in (range(77, 77 + count), ()):
        rows = {name: table.assign(rare=0) for name, table in tables().items()}
        rows["oslo"].loc[list(holders), "rare"] = 1
        rows["lyon"].loc[:40, "rare"], rows["turin"].loc[:40, "rare"] = 1, 1
        engine = doors(study, rows)
        if not holders:  # the same withheld column, nobody's value in it
            rows["oslo"].loc[range(count), "rare"] = 1
            engine = doors(study, rows)
        talk, known, contract = opened(engine, study)
        assert list(known.withheld) == [False, False, False, True]
        talk.follow(course.design(contract, known))
        sums.append({name: total.sums for name, total in talk.totals.items()})
    for name, told in sums[0].items():
        for key, value in told.items():
            np.testing.assert_array_equal(value, sums[1][name][key], err_msg=f"{name} {key}")
    assert not sums[0][diagnostic("propensity")]["hessian"][3].any()


def rare_reference(table, somebody):
    return table.assign(stage=np.where(somebody, "I", np.where(np.arange(len(table)) % 2, "II", "III")))


def corrected(table, somebody):
    return table.assign(again=np.where(somebody, 1 - table.sex, table.sex))


@pytest.mark.parametrize(("made", "more", "withheld"), [
    (rare_reference, {"stage": {"type": "categorical", "levels": ["I", "II", "III"]}}, [*[False] * 4, False, True]),
    (corrected, {"again": {"type": "binary"}}, [*[False] * 4, True])], ids=["reference", "two columns"])
def test_a_combination_of_columns_that_tells_of_one_person_enters_no_sum(doors, made, more, withheld):
    """C2 once more: no column is rare, but 1 − II − III, or the difference of two, is a trait of one person, and its
    row in any second moment is that person's."""
    study = plan(covariates={"age": {}, "bmi": {}, "sex": {"type": "binary"}, "smoker": {"type": "binary"}} | more)
    for somebody in (True, False):
        rows = {name: made(table, (np.arange(len(table)) == 5) & (name == "oslo") & somebody)
                for name, table in tables().items()}
        _, known, _ = opened(doors(study, rows), study)
        assert known.withheld.tolist() == (withheld if somebody else [False] * len(withheld))


@pytest.mark.parametrize("like", ["rare", "sex"])
def test_the_words_of_a_handshake_do_not_say_whether_one_person_has_a_trait(doors, like):
    """'is constant here' left before anything was asked: where it was missing, somebody at that site had the trait. So
    did 'coincide here', where one person's value differs."""
    study = plan(covariates={"age": {}, "sex": {"type": "binary"}, "rare": {"type": "binary"}})
    said = []
    for holders in ([], [5]):
        rows = {name: table.assign(rare=0 if like == "rare" else table.sex) for name, table in tables().items()}
        rows["oslo"].loc[holders, "rare"] = 1 - rows["oslo"].loc[holders, "rare"]
        hello = Hello("run", 1, "oslo", __version__, study.hash(), dict.fromkeys(NAMES, True))
        said.append(doors(study, rows).exchange({"oslo": hello})["oslo"].notes)
    assert said[0] == said[1]
    assert any("'rare' hardly varies" in words for words in said[0]["warnings"]) == (like == "rare")


def test_the_words_of_a_handshake_do_not_say_whether_one_person_has_a_rare_value(doors):
    """'counted with the nearest' left of each site, in the clear, where one person had a score that nobody else has;
    'has no value here' where nobody had one."""
    study, said = plan(covariates={"age": {}, "score": {}, "bmi": {}}, missing="model"), []
    for holders in ([], [5]):
        rows = {name: table.assign(score=np.arange(len(table)) // 2 % 4) for name, table in tables().items()}
        rows["oslo"]["bmi"] = rows["oslo"].bmi.where(rows["oslo"].index.isin(holders))
        rows["oslo"].loc[holders, "score"] = 4
        hello = Hello("run", 1, "oslo", __version__, study.hash(), dict.fromkeys(NAMES, True))
        said.append(doors(study, rows).exchange({"oslo": hello})["oslo"].notes)
    assert said[0] == said[1]
    assert any("'bmi' has hardly a value here" in words for words in said[0]["warnings"])


def test_a_small_cell_of_a_two_valued_outcome_is_refused(doors):
    """H7: an outcome of two values escaped min_cell. (Of 0 and 1 in a study that says so: test_outcomes.)"""
    rows = {name: table.assign(y=1.0 + (table.y > table.y.median())) for name, table in tables().items()}
    rows["oslo"]["y"] = 1.0
    rows["oslo"].loc[:2, "y"] = 2.0
    with pytest.raises(DisclosureError, match="outcome"):
        opened(doors(plan(), rows), plan())


def test_a_cohort_that_is_not_the_studys_is_refused(doors):
    """H1: with four sites and no quorum any three would do, and two such sums tell the fourth site's."""
    names = ("lyon", "oslo", "rome", "turin")
    study = plan(names)
    engine = doors(study, tables(names))
    engine.sites = NAMES
    with pytest.raises(HandshakeError, match="cohort"):
        opened(engine, study)
    engine.sites = names
    talk, contract = Talk(engine, "other"), Contract(study, names)
    coordinator.handshake(talk, contract)
    from fedci.coordinator import masked_sums

    talk.sites = NAMES  # the handshake named all, the keys are of three
    with pytest.raises(HandshakeError, match="this run is"):
        masked_sums.agree(talk)


@pytest.mark.parametrize("change", [{"seed": 1}, {"preset": "classic", "options": {}},
                                    {"options": {"optimiser": {"rounds": 3}}},
                                    {"quorum": 2}, {"runs": 100}])
def test_seed_preset_options_quorum_and_runs_are_the_studys(doors, change):
    """H6: any seed, another preset. All of it is in the hash that both sides compare."""
    with pytest.raises(HandshakeError, match="study differs"):
        opened(doors(plan(), tables()), plan(**change))


def test_a_study_begins_no_more_often_than_it_says(doors):
    study = plan(runs=2)
    engine = doors(study, tables())
    for run in ("a", "b"):
        opened(engine, study, run)
    with pytest.raises(DisclosureError, match="as often as it allows"):
        opened(engine, study, "c")
    hello = Hello("a-placebo", 1, "lyon", __version__, study.hash(), dict.fromkeys(NAMES, True))
    assert engine.exchange({"lyon": hello})["lyon"].code == SiteError.code
