"""Of whom a site has told: what a second study, a new kit or another cohort may add to it. Attacks go through real
doors with real ledgers; the kits are new each time, the site's store is not."""

import base64
import sqlite3
from contextlib import closing
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from fedci import Source
from fedci.coordinator import coordinator
from fedci.coordinator.talk import Talk
from fedci.errors import DisclosureError, OutputError
from fedci.privacy.agreement import Credentials, witness_key
from fedci.privacy.tokens import witnesses
from fedci.protocol.codec import decode, encode
from fedci.protocol.course import Contract
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import AskLinkKey, AskTokens, Exclude, Hello, Refusal, Reply, Step
from fedci.protocol.timing import grid
from fedci.site import store
from fedci.site.accountant import Accountant, opened
from fedci.site.admission import situation, told_per_person
from fedci.site.cohort import fingerprints
from fedci.site.door import Door
from fedci.site.ledger import Ledger
from fedci.site.site import Site
from fedci.site.store import FILE
from fedci.study.policy import POLICIES, policy
from fedci.table.source import located
from fedci.version import __version__
from support.stored import CONTEXT, admitting, release
from tests_support import STANDARD_OTHERWISE, frame, study

STANDARD = {**STANDARD_OTHERWISE, "secure_sum": "auto"}
"""`standard` but for its masks and the number of sums: one small site is asked here, by itself."""
WATCHED = {"name": "simulation", "min_difference": 20, "min_cell": 10}
"""Nothing is asked but of the accountant."""
NUMBERS = count()
"""Of kits and runs: no two are the same."""


class Kit:
    """A site as one kit has it: a new folder with a new identity, and the site's one store."""

    def __init__(self, folder, agreed, rows, keep="store", name="a", key=None, apart=""):
        self.folder, self.agreed, self.name = folder / f"kit-{next(NUMBERS)}", agreed, name
        self.keep, self.rows, self.key, self.apart = folder / keep, rows, key, apart
        self.ask(None)

    def ask(self, run, *requests):
        """The answers of a job of its own (a new process, as it were) to a handshake and these requests."""
        with Ledger(self.folder) as book:
            account = opened(self.keep, book.entries, self.apart)
            known = Credentials(self.key, Ed25519PrivateKey.generate(), {})
            self.site = Site(self.agreed, Source(self.name, self.rows).read(self.agreed), known, account)
            door = Door(self.site, book, self.folder)
            said = [] if run is None else [hello(run, self.agreed, self.name)]
            answers = [decode(door.answer(encode(request))) for request in [*said, *requests]]
            last = answers[-1] if answers else None
            if isinstance(last, Reply) and "withheld" in last.sums:  # the sum over one site, told with the next step
                step = Step(run, last.round + 1, self.name, "AskMeans", dict(last.sums))
                answers.append(decode(door.answer(encode(step))))
            return answers

    def moments(self, run=None):
        """The counts and sums of its columns."""
        run = run or f"run-{next(NUMBERS)}"
        return self.ask(run, Step(run, 2, self.name, "AskColumns"))[-1]


def hello(run, agreed, name="a") -> Hello:
    return Hello(run, 1, name, __version__, agreed.hash(), {name: True})


def told(folder, rows, agreed=None, keep="store", name="a", apart="", **changes):
    """The answer of a new kit with these rows to a question for their moments."""
    agreed = agreed or study(policy=STANDARD | changes)
    return Kit(folder, agreed, rows, keep, name, apart=apart).moments()


def why(folder, *arguments, **more) -> str:
    """Why it is refused, in the site's own words (counts do not leave)."""
    answer = told(folder, *arguments, **more)
    assert isinstance(answer, Refusal), answer
    assert answer.code == "disclosure"
    log = sorted(folder.glob("kit-*/site.log"), key=lambda path: path.stat().st_mtime_ns)[-1]
    return log.read_text(encoding="utf-8").splitlines()[-1]


# --- counts of events by time, in a second study of other times


def events(folder, horizons):
    """How many of each arm had the event by the first horizon, as a new study of the same people tells it."""
    rng = np.random.default_rng(5)
    number = np.arange(3000)
    rows = frame(3000, 5).assign(w=number % 2, days=rng.uniform(0.1, 8.0, 3000), died=number // 2 % 2)
    loose = STANDARD | {"outcome_noise": 0.0}
    agreed = study(policy=loose, preset="default", options={"model": {"landmarks": 0}}, outcome={
        "time": "days", "event": "died", "type": "survival", "horizons": horizons})
    known = Credentials(None, Ed25519PrivateKey.generate(), {})
    account = folder and opened(folder, [])
    engine = InProcessEngine({"a": Site(agreed, Source("a", rows).read(agreed), known, account)})
    talk, contract = Talk(engine, f"run-{next(NUMBERS)}"), Contract(agreed, ("a",))
    coordinator.handshake(talk, contract)
    talk, _ = coordinator.open_course(talk, contract)
    by_time = talk.totals["AskTimes"].sums["events"]
    return by_time[:, grid(agreed) <= horizons[0]].sum(1)


def test_events_are_counted_by_one_division_of_time_for_ever(tmp_path):
    """Counts up to 3.98 and up to 4 days differ by who had the event between, each of them a count of many."""
    first = events(tmp_path / "site", [3.98, 7.8])
    np.testing.assert_array_equal(events(tmp_path / "site", [3.98, 7.8]), first)
    with pytest.raises(DisclosureError, match="site 'a': events of 'died, days' were counted"):
        events(tmp_path / "site", [4.0, 7.8])
    assert 0 < np.abs(events(None, [4.0, 7.8]) - events(None, [3.98, 7.8])).max() < 10, "the defence off"


# --- H2: a second study, a new kit, one patient more


def test_one_patient_more_is_refused_whatever_the_kit_and_the_same_patients_are_not(tmp_path):
    rows = frame(130, 0)
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    assert isinstance(told(tmp_path, rows.iloc[:100].sample(frac=1, random_state=0)), Reply)  # in another order
    reason = why(tmp_path, rows.iloc[:101])
    assert "would tell of 1 people as much as a mean over 1 does" in reason
    assert "policy.min_difference" in reason
    assert isinstance(told(tmp_path, rows.iloc[:101], keep="other"), Reply)  # the defence off: nobody remembers


def test_a_kit_with_another_name_for_the_site_another_seed_and_other_options_forgets_nothing(tmp_path):
    rows = frame(101, 0)
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    for agreed in (study(policy=STANDARD, seed=5), study(policy=STANDARD, preset="default"),
                   study(policy=STANDARD, name="a study of something else"),
                   study(policy=STANDARD, covariates={"sex": {"type": "binary"}, "bmi": {}, "age": {}})):
        assert isinstance(told(tmp_path, rows, agreed, name="elsewhere"), Refusal)


def test_the_difference_of_two_studies_is_that_patients_row_where_nobody_remembers(tmp_path):
    """What the attack gets without the accountant: so that the refusals above are known to be of something."""
    rows, sums = frame(101, 0), []
    for n in (100, 101):
        answer = told(tmp_path, rows.iloc[:n], study(), keep=f"store-{n}")
        sums.append(answer.sums["total"])
    np.testing.assert_allclose(sums[1] - sums[0], rows[["age", "bmi", "sex"]].iloc[100], atol=1e-9)


def test_one_patient_exchanged_left_out_or_corrected_is_refused(tmp_path):
    rows = frame(130, 0)
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    corrected = rows.iloc[:100].assign(bmi=rows.bmi.iloc[:100].where(rows.index[:100] != 3, 40.0))
    for other in (rows.iloc[1:101], rows.iloc[1:100], corrected):
        assert isinstance(told(tmp_path, other), Refusal)


def test_twenty_who_join_together_may_be_told_of(tmp_path):
    """Ten of each arm: the policy's least, exactly."""
    rows = with_treated(frame(130, 0), range(0, 130, 2))
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    assert isinstance(told(tmp_path, rows.iloc[:119]), Refusal)
    assert isinstance(told(tmp_path, rows.iloc[:120]), Reply)


def test_fifteen_of_one_arm_are_enough_for_the_arm_and_too_few_for_the_cohort(tmp_path):
    rows = with_treated(frame(130, 0), range(60))
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    assert "policy.min_difference" in why(tmp_path, rows.iloc[:115])
    assert isinstance(told(tmp_path, rows.iloc[:120]), Reply)


def test_the_first_step_that_tells_of_rows_is_refused_and_none_comes_before_it(tmp_path):
    """A coordinator that skips a step of the protocol skips no check."""
    rows, run = frame(101, 0), "run"
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    kit = Kit(tmp_path, study(policy=WATCHED), rows)
    assert kit.ask(run, Step(run, 2, "a", "AskMeans"))[-1].code == "site"
    assert kit.ask(run, Step(run, 2, "a", "AskColumns"))[-1].code == "disclosure"


# --- how many numbers


def limited(rows, **changes):
    """A study of which one may be told in all of these rows, and two may not."""
    open_to_all = study(policy=STANDARD, **changes)
    told_of = situation(open_to_all, Source("a", rows).read(open_to_all), 1)
    return study(policy=STANDARD | {"numbers_per_person": 1.5 * told_per_person(told_of)}, **changes)


def test_numbers_add_up_over_studies_of_the_same_people_and_not_over_runs(tmp_path):
    """Each study alone is within the limit, two of them are not; a study that runs again tells the same."""
    rows = frame(400, 0)
    one, two, three = (limited(rows.iloc[:200], seed=seed) for seed in range(3))
    assert isinstance(told(tmp_path, rows.iloc[:200], one), Reply)
    assert isinstance(told(tmp_path, rows.iloc[:200], one), Reply)
    assert "numbers for each were told in 1 other studies or cohorts" in why(tmp_path, rows.iloc[:200], two)
    assert isinstance(told(tmp_path, rows.iloc[200:], three), Reply)  # of other people
    assert isinstance(told(tmp_path, rows.iloc[:200], two, keep="elsewhere"), Reply)  # the defence off


def test_under_standard_one_study_is_told_of_some_people_and_no_other(tmp_path):
    """Sums with noise (policy.sum_noise): what two studies tell of a person adds up."""
    store.create(tmp_path)
    account, asked = Accountant(tmp_path), replace(release(range(100), set(range(50))), per_person=0.2)
    account.admit(replace(asked, run="one"), policy("standard"))
    account.admit(replace(asked, run="again"), policy("standard"))
    with pytest.raises(DisclosureError, match="numbers for each were told"):
        account.admit(replace(asked, study="another", run="three"), policy("standard"))


def test_numbers_and_hidden_outcomes_are_minded_where_cohorts_are_not(tmp_path):
    """A policy without min_difference loosens that, and nothing else."""
    store.create(tmp_path)
    account, asked = Accountant(tmp_path), replace(release(range(100), set(range(50))), per_person=0.2)
    loose = policy({"name": "custom", "min_difference": 0, "numbers_per_person": 0.3})
    account.admit(replace(asked, run="one"), loose)
    account.admit(replace(release(range(99), set(range(50))), run="two"), loose)  # one person fewer
    with pytest.raises(DisclosureError, match="numbers for each were told"):
        account.admit(replace(asked, study="another", run="three"), loose)
    outcome = replace(asked, study="another", run="four", per_person=0.0, outcome="z",
                      columns=(*asked.columns, "z"))
    with pytest.raises(DisclosureError, match="was told of as an outcome"):
        account.admit(outcome, loose)


def test_numbers_add_up_over_cohorts_of_one_study(tmp_path):
    """A study that runs again with 30 people more asks at other parameters: its sums are others, about the same people.
    Nor is a refuter's run counted twice: the study's own count has it."""
    rows = frame(230, 0)
    agreed = limited(rows.iloc[:200], diagnostics={"refute": ["subset"]})
    kit = Kit(tmp_path, agreed, rows.iloc[:200])
    assert isinstance(kit.moments("run"), Reply)
    refuter = replace(hello("run-subset", agreed), refuter="subset")
    assert isinstance(kit.ask(None, refuter, Step("run-subset", 2, "a", "AskColumns"))[1], Reply)
    assert isinstance(kit.moments("again"), Reply)
    assert "numbers for each were told in 1 other studies or cohorts" in why(tmp_path, rows, agreed)


def test_a_refuter_without_its_study_is_refused(tmp_path):
    """Its numbers are counted with the study's: of a study that only shook hands they would count for nothing, and
    study after study could tell of the same people."""
    rows = frame(200, 0)
    agreed = limited(rows, diagnostics={"refute": ["placebo"]})
    kit, refuter = Kit(tmp_path, agreed, rows), replace(hello("run-placebo", agreed), refuter="placebo")
    step = Step("run-placebo", 2, "a", "AskColumns")
    assert isinstance(kit.ask("run")[0], Reply)
    answer = kit.ask(None, refuter, step)[1]
    assert isinstance(answer, Refusal)
    assert "a refuter follows a run of its study" in answer.reason
    kit = Kit(tmp_path, agreed, rows)
    assert isinstance(kit.moments("run"), Reply)
    assert isinstance(kit.ask(None, refuter, step)[1], Reply)


def test_numbers_add_up_over_cohorts_of_sites(tmp_path):
    """With a quorum the same people are summed with other sites: other sums."""
    store.create(tmp_path)
    account, asked = Accountant(tmp_path), replace(release(range(100), set(range(50))), per_person=0.2)
    for sites, run in ((("a", "b", "c"), "one"), (("c", "b", "a"), "again")):
        account.admit(replace(asked, sites=sites, run=run), POLICIES["standard"])
    with pytest.raises(DisclosureError, match="numbers for each were told"):
        account.admit(replace(asked, sites=("a", "b", "d"), run="third"), POLICIES["standard"])


# --- the same columns under other names


RENAMED = {"treatment": {"name": "v", "column": "w"}, "outcome": {"name": "z", "column": "y"},
           "covariates": {"years": {"column": "age"}, "mass": {"column": "bmi"},
                          "female": {"type": "binary", "column": "sex"}}}


def test_a_study_that_calls_the_same_columns_otherwise_is_about_the_same(tmp_path):
    """A study's author writes names and codings: one patient more, or another study, is seen all the same."""
    rows = frame(101, 0)
    renamed = study(policy=STANDARD, **RENAMED)
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    assert isinstance(told(tmp_path, rows.iloc[:100], renamed), Reply)
    assert "would tell of 1 people as much as a mean over 1 does" in why(tmp_path, rows, renamed)
    few = limited(rows.iloc[:100])
    assert isinstance(told(tmp_path, rows.iloc[:100], few, keep="b"), Reply)
    again = limited(rows.iloc[:100], **RENAMED)
    assert "numbers for each were told in 1 other studies" in why(tmp_path, rows.iloc[:100], again, keep="b")


@pytest.mark.parametrize("covariates", [
    {"age": {"factor": 1.000001}, "bmi": {}, "sex": {"type": "binary"}},
    {"age": {}, "bmi": {"columns": ["bmi", "sex"], "combine": "sum"}, "sex": {"type": "binary"}}])
def test_whom_a_coding_changes_nobody_can_compare_and_they_are_refused(tmp_path, covariates):
    """A factor near 1 would make everybody another person, and so one patient more none of those told of before."""
    rows = frame(101, 0)
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    changed = study(policy=STANDARD, covariates=covariates)
    assert "cannot tell whether they are of the same people" in why(tmp_path, rows, changed)
    assert isinstance(told(tmp_path, rows, changed, keep="b"), Reply)
    assert isinstance(told(tmp_path, rows, changed, keep="b"), Reply)


def test_an_outcome_is_no_covariate_under_another_name_either(tmp_path):
    rows = with_ids(frame(120, 0)).assign(z=frame(120, 1).y)
    same = {"ids": ("id",), "linkage": {"enabled": False}, "policy": STANDARD}
    assert isinstance(told(tmp_path, rows, study(**same)), Reply)
    covariates = {"age": {}, "other": {"column": "y", "factor": 2}}
    found = why(tmp_path, rows, study(**same, outcome="z", covariates=covariates))
    assert "'y' was told of as an outcome, with noise" in found


def test_a_change_since_a_baseline_hides_the_later_value_alone(tmp_path):
    """The baseline is a covariate too, and was told without noise: a later study may have it."""
    rows = with_ids(frame(120, 0)).assign(before=frame(120, 1).y, z=frame(120, 2).y)
    same = {"ids": ("id",), "linkage": {"enabled": False}, "policy": STANDARD, "covariates": {"age": {}, "before": {}}}
    change = {"name": "change", "columns": ["y", "before"], "combine": "difference"}
    assert isinstance(told(tmp_path, rows, study(**same | {"outcome": change})), Reply)
    assert isinstance(told(tmp_path, rows, study(**same, outcome="z")), Reply)
    later = same | {"covariates": {"age": {}, "y": {}}}
    assert "'y' was told of as an outcome" in why(tmp_path, rows, study(**later, outcome="z"))


def test_one_time_corrected_is_refused(tmp_path):
    rows = frame(120, 0).assign(died=lambda rows: (rows.y > 2.5).astype(int), days=lambda rows: 1.0 + rows.bmi)
    outcome = {"time": "days", "event": "died", "type": "survival", "horizons": [30.0]}
    loose = {"outcome_noise": 0.0, "statistics_per_row": 1e9, "max_parameters_per_row": 1e9}
    agreed = study(policy=STANDARD | loose, outcome=outcome, preset="default")
    assert isinstance(told(tmp_path, rows, agreed), Reply)
    assert isinstance(told(tmp_path, rows, agreed), Reply)
    assert "a few corrected rows" in why(tmp_path, rows.assign(days=rows.days.where(rows.index != 7, 2.0)), agreed)


def test_by_what_a_query_of_the_study_gives_people_are_known_in_that_query_alone(tmp_path, monkeypatch):
    """Its author may call columns and ids as he likes, and change values a little."""
    pytest.importorskip("sqlalchemy", reason="the extra `sql` is not installed")
    rows = with_ids(frame(101, 0))
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        rows.to_sql("cohort", connection, index=False)
    monkeypatch.setenv("FEDCI_DATABASE_URL", f"sqlite:///{tmp_path / 'a.db'}")

    def asked(query, names):
        treatment, outcome, age = names
        agreed = study(policy=STANDARD, treatment=treatment, outcome=outcome, covariates={age: {}}, ids=("id",),
                       linkage={"enabled": False}, source={"query": query})
        return agreed, located("sql:", "a", agreed)

    first = asked("SELECT id, w, y, age FROM cohort LIMIT 100", ("w", "y", "age"))
    assert isinstance(told(tmp_path, first[1], first[0]), Reply)
    assert isinstance(told(tmp_path, first[1], first[0]), Reply)
    other = asked("SELECT id || 'x' AS id, w AS v, y + 1e-9 AS z, age AS a FROM cohort", ("v", "z", "a"))
    assert "cannot tell whether they are of the same people" in why(tmp_path, other[1], other[0])


# --- what noise on outcomes hides


def test_an_outcome_is_no_covariate_of_a_later_study(tmp_path):
    """With noise as an outcome and without as a covariate: the second study would undo the first one's promise."""
    rows = with_ids(frame(120, 0)).assign(z=frame(120, 1).y)
    same = {"ids": ("id",), "linkage": {"enabled": False}, "policy": STANDARD}
    assert isinstance(told(tmp_path, rows, study(**same)), Reply)
    covariates = {"age": {}, "y": {}}
    found = why(tmp_path, rows, study(**same, outcome="z", covariates=covariates))
    assert "'y' was told of as an outcome, with noise" in found
    bare = same | {"policy": STANDARD | {"outcome_noise": 0.0}}
    assert isinstance(told(tmp_path, rows, study(**bare, outcome="z", covariates=covariates), keep="b"), Reply)
    assert isinstance(told(tmp_path, rows, study(**same, outcome="z")), Reply)  # another outcome, as outcome


def test_noise_measured_on_people_who_are_alike_does_not_do_for_all(tmp_path):
    """Whoever chooses the first study's people chooses the spread that noise is measured by, for ever."""
    rows = frame(400, 0)
    alike = rows.sort_values("y").iloc[150:270]
    agreed = study(policy=STANDARD)
    assert isinstance(told(tmp_path, alike, agreed), Reply)
    with pytest.raises(DisclosureError, match="the noise would hide little"):
        told(tmp_path, rows, agreed)


# --- by ids


def with_ids(rows):
    return rows.assign(id=[f"p{k}" for k in range(len(rows))])


def test_with_ids_one_patient_more_is_seen_in_a_study_of_other_columns(tmp_path):
    rows = with_ids(frame(101, 0))
    every = study(policy=STANDARD, ids=("id",), linkage={"enabled": False})
    fewer = study(policy=STANDARD, ids=("id",), linkage={"enabled": False}, covariates={"age": {}})
    assert isinstance(told(tmp_path, rows.iloc[:100], every), Reply)
    assert "as much as a mean over 1 does" in why(tmp_path, rows, fewer)
    assert isinstance(told(tmp_path, rows.iloc[:100], fewer), Reply)


def test_tokens_of_one_patient_more_are_refused_before_they_leave(tmp_path):
    """Their number is one person's answer to whatever question the study's author made of who is left out."""
    rows, agreed = with_ids(frame(101, 0)), study(policy=STANDARD, ids=("id",))

    def linked(table, apart=""):
        run = f"run-{next(NUMBERS)}"
        return Kit(tmp_path, agreed, table, apart=apart, key=bytes(32)).ask(run, AskLinkKey(run, 2, "a"))[-1]

    assert isinstance(linked(rows.iloc[:100]), Reply)
    assert isinstance(linked(rows.iloc[:100]), Reply)
    assert linked(rows).code == "disclosure"
    assert Accountant(tmp_path / "store").runs == set()
    assert isinstance(told(tmp_path, rows.iloc[:100], agreed, keep="b"), Reply)  # sums are another matter: here
    assert isinstance(linked(with_ids(frame(140, 0))), Reply)  # are forty more


def test_with_ids_everybody_may_be_measured_again_and_one_may_not(tmp_path):
    agreed = study(policy=STANDARD, ids=("id",), linkage={"enabled": False})
    rows = with_ids(frame(100, 0))
    assert isinstance(told(tmp_path, rows, agreed), Reply)
    assert isinstance(told(tmp_path, rows.assign(bmi=rows.bmi + 1), agreed), Reply)
    one = rows.assign(bmi=rows.bmi.where(rows.index != 3, 40.0))
    assert "a few corrected rows" in why(tmp_path, one, agreed)
    assert isinstance(told(tmp_path, rows.assign(id=[f"p{k + 1}" for k in range(100)]), agreed), Refusal)


def test_without_ids_a_study_of_other_columns_cannot_be_compared_and_is_refused_unless_the_operator_says_why(tmp_path):
    rows = frame(101, 0)
    fewer = study(policy=STANDARD, covariates={"age": {}})
    assert isinstance(told(tmp_path, rows.iloc[:100]), Reply)
    assert "cannot tell whether they are of the same people" in why(tmp_path, rows, fewer)
    assert isinstance(told(tmp_path, rows, fewer, apart="another ward"), Reply)
    assert [act["apart"] for act in Accountant(tmp_path / "store").acts] == ["another ward"]


def test_columns_that_no_study_shares_do_not_combine(tmp_path):
    rows = frame(101, 0).assign(v=frame(101, 0).w, z=frame(101, 1).y)
    assert isinstance(told(tmp_path, rows.iloc[:100], study(policy=STANDARD, covariates={"age": {}})), Reply)
    other = study(policy=STANDARD, covariates={"bmi": {}}, treatment="v", outcome="z")
    assert isinstance(told(tmp_path, rows, other), Reply)


def test_a_cohort_that_is_known_in_other_columns_is_new_in_these(tmp_path):
    """a of 100 in age, b of 101 in bmi; then a in both would tell the bmi of the one."""
    ids = {"policy": STANDARD, "ids": ("id",), "linkage": {"enabled": False}}
    rows = with_ids(frame(101, 0)).assign(v=frame(101, 0).w, z=frame(101, 1).y)
    a, b = rows.iloc[:100], rows
    assert isinstance(told(tmp_path, a, study(**ids, covariates={"age": {}})), Reply)
    assert isinstance(told(tmp_path, b, study(**ids, covariates={"bmi": {}}, treatment="v", outcome="z")), Reply)
    assert isinstance(told(tmp_path, a, study(**ids, covariates={"age": {}, "bmi": {}})), Refusal)


# --- the arms


def with_treated(rows, treated):
    """A cohort whose arms are known."""
    return rows.assign(w=np.isin(np.arange(len(rows)), list(treated)).astype(int))


def test_an_arm_counts_as_much_as_the_whole(tmp_path):
    """The outcome's moments leave for each arm: 25 people fewer, five of them treated, would tell of the five."""
    rows = with_treated(frame(145, 0), range(25))
    assert isinstance(told(tmp_path, rows), Reply)
    reason = why(tmp_path, rows.iloc[5:125])
    assert "the treated, or the untreated" in reason
    assert "would tell of 5 people as much as a mean over 5 does" in reason
    assert "policy.min_cell" in reason
    assert isinstance(told(tmp_path, rows.iloc[:125]), Reply)  # the same treated, 20 untreated fewer


def test_one_treatment_corrected_is_refused(tmp_path):
    """The same people by their ids, and one of them in the other arm."""
    agreed = study(policy=STANDARD, ids=("id",), linkage={"enabled": False})
    rows = with_ids(with_treated(frame(100, 0), range(50)))
    assert isinstance(told(tmp_path, rows, agreed), Reply)
    assert isinstance(told(tmp_path, rows.assign(w=rows.w.where(rows.index != 3, 0)), agreed), Refusal)


# --- H3: many cohorts


def excluded_as_one_likes(folder, agreed, people: int, tries: int):
    """A liar's cohorts, one job each: linkage with a key from a file, which a site that works with the liar has too,
    and of the tokens a quarter of its own choice come back as those of people who stay elsewhere. (Rows, who was in
    which of the answered ones, their sums)."""
    rows = with_ids(with_treated(frame(people, 0), range(0, people, 2)))
    kit, rng, got = Kit(folder, agreed, rows, key=bytes(range(32))), np.random.default_rng(1), []
    tokens = kit.ask("look", AskLinkKey("look", 2, "a"), AskTokens("look", 3, "a", 0, 1))[-1].tokens
    for number in range(tries):
        run, away = f"job-{number}", tokens[np.sort(rng.choice(people, people // 4, replace=False))]
        forged = witnesses(away, witness_key(kit.key, agreed.hash()), b"another site, that helps the liar")
        answer = kit.ask(run, AskLinkKey(run, 2, "a"), AskTokens(run, 3, "a", 0, 1),
                         Exclude(run, 4, "a", away, forged, 0, 1), Step(run, 5, "a", "AskColumns"))[-1]
        if isinstance(answer, Reply):
            got.append((np.isin(np.arange(people), kit.site.run.rows), answer.sums["total"]))
    return rows[["age", "bmi", "sex"]].to_numpy(float), np.array([who for who, _ in got], float), np.array(
        [sums for _, sums in got])


def recovered(truth, told_of, sums) -> int:
    """Rows found by least squares from the sums over all cohorts."""
    found = np.linalg.lstsq(told_of, sums, rcond=None)[0]
    return int((np.abs(found - truth) < 0.05).all(axis=1).sum())


def test_cohorts_that_each_differ_by_many_give_everybody_away_where_nobody_adds_up(tmp_path):
    truth, told_of, sums = excluded_as_one_likes(tmp_path, study(ids=("id",), runs=100), 60, 75)
    assert len(told_of) == 75
    assert recovered(truth, told_of, sums) == 60


def test_cohorts_that_each_differ_by_many_give_nobody_away(tmp_path):
    """Each two of 160 people, 40 of whom are left out, differ by more than 20: no two of them would be refused."""
    agreed = study(policy=STANDARD, ids=("id",), runs=100)
    truth, told_of, sums = excluded_as_one_likes(tmp_path, agreed, 160, 40)
    assert 1 <= len(told_of) <= agreed.policy.max_cohorts
    assert recovered(truth, told_of, sums) == 0
    assert np.diag(np.linalg.pinv(told_of) @ told_of).max() <= 1 / 20 + 1e-9


def test_the_number_of_different_cohorts_is_bounded_for_each_outcome(tmp_path):
    rows = frame(400, 0).assign(z=frame(400, 1).y)
    few = {"policy": STANDARD | {"max_cohorts": 3}}
    for start in (0, 100, 200):
        assert isinstance(told(tmp_path, rows.iloc[start:start + 100], study(**few)), Reply)
    assert "policy.max_cohorts" in why(tmp_path, rows.iloc[300:], study(**few))
    assert isinstance(told(tmp_path, rows.iloc[:100], study(**few)), Reply)
    assert POLICIES["standard"].max_cohorts == 20


# --- any sequence


def fewest(vectors: np.ndarray) -> int:
    """The fewest people that a combination which is not 0 belongs to, by trying all groups."""
    rank, people = np.linalg.matrix_rank(vectors), vectors.shape[1]
    for size in range(1, people + 1):
        for bits in range(1 << people):
            group = [k for k in range(people) if bits >> k & 1]
            if len(group) == size and np.linalg.matrix_rank(np.delete(vectors, group, axis=1)) < rank:
                return size
    return people


COHORTS = st.lists(st.tuples(st.sets(st.integers(0, 7), min_size=6), st.sets(st.integers(0, 7), min_size=2)),
                   min_size=1, max_size=6)


@settings(max_examples=40)
@given(COHORTS)
def test_of_any_sequence_what_is_let_through_singles_out_nobody(tmp_path_factory, cohorts):
    """No combination of whole cohorts is of fewer than three people, none of their arms of fewer than two."""
    folder = tmp_path_factory.mktemp("any")
    store.create(folder)
    account, rules = Accountant(folder), policy(WATCHED | {"min_difference": 3, "min_cell": 2})
    whole, arms = [], []
    for number, (people, treated) in enumerate(cohorts):
        split = [people & treated, people - treated]
        if min(map(len, split)) < 2:
            continue
        try:
            account.admit(release(sorted(people), treated, f"r{number}"), rules)
        except DisclosureError:
            continue
        whole.append(np.isin(np.arange(8), list(people)))
        arms += [np.isin(np.arange(8), list(arm)) for arm in split]
    if whole:
        assert fewest(np.array(whole, float)) >= 3
        assert fewest(np.array(arms, float)) >= 2


def test_of_two_processes_that_ask_at_once_one_is_refused(tmp_path):
    for number in range(5):
        folder, results = tmp_path / str(number), CONTEXT.Queue()
        store.create(folder)
        both = [CONTEXT.Process(target=admitting, args=(folder, range(n), results)) for n in (100, 101)]
        for process in both:
            process.start()
        answers = sorted(results.get(timeout=60) for _ in both)
        for process in both:
            process.join()
        assert answers[0] == 0
        assert answers[1] in (100, 101)
        assert Accountant(folder).counts.people == answers[1]


# --- what it keeps


def test_the_store_names_nobody(tmp_path):
    """Digests under the store's own key: no id, no value, no row number."""
    rows = with_ids(frame(100, 0))
    agreed = study(policy=STANDARD, ids=("id",), linkage={"enabled": False})
    assert isinstance(told(tmp_path, rows, agreed), Reply)
    data = (tmp_path / "store" / FILE).read_text(encoding="utf-8")
    assert not [one for one in (*rows.id, *map(repr, rows.age.tolist())) if f'"{one}"' in data]
    [line] = [line for line in Accountant(tmp_path / "store").store.lines if line["kind"] == "cohort"]
    assert {len(base64.b64decode(prints)) for prints in line["prints"].values()} == {8 * 100}
    people = [b"1", b"2", b"1"]
    own, other = fingerprints(people, bytes(32)), fingerprints(people, bytes(31) + b"\1")
    assert len({*own, *other}) == 6  # another key is other digests, and who stands twice is two


def test_the_same_question_again_adds_nothing_to_the_store(tmp_path):
    kit = Kit(tmp_path, study(policy=STANDARD), frame(100, 0))
    assert isinstance(kit.moments("run-a"), Reply)
    size = (tmp_path / "store" / FILE).stat().st_size
    assert isinstance(kit.moments("run-a"), Reply)
    assert (tmp_path / "store" / FILE).stat().st_size == size


def test_numbers_told_are_counted_in_all_and_for_the_person_of_whom_it_is_most(tmp_path):
    store.create(tmp_path)
    account, rules = Accountant(tmp_path), POLICIES["simulation"]
    account.admit(release(range(60), range(20), "one"), rules)
    account.admit(release(range(40, 100), range(60), "two"), rules)
    for run, numbers in (("one", 5), ("two", 7), ("two", 1), ("none", 100), ("one", 0)):
        account.add_numbers(run, numbers)
    assert Accountant(tmp_path).counts == (2, 100, 2, 13, 13)
    assert account.runs == {"one", "two"}


def test_the_door_counts_what_leaves_once(tmp_path):
    kit = Kit(tmp_path, study(policy=STANDARD), frame(100, 0))
    answer = kit.moments("run-a")
    kit.moments("run-a")
    numbers = sum(np.size(array) for array in answer.sums.values()) + 4 * 3  # and the flags of the columns
    assert Accountant(tmp_path / "store").counts[3:] == (numbers, numbers)


def test_a_purpose_has_a_secret_that_outlives_kits(tmp_path):
    store.create(tmp_path)
    first = Accountant(tmp_path)
    assert first.secret("noise") == Accountant(tmp_path).secret("noise") != first.secret("people")


def test_simulated_people_are_remembered_and_not_refused(tmp_path):
    assert isinstance(told(tmp_path, frame(60, 0), study()), Reply)
    assert isinstance(told(tmp_path, frame(61, 0), study()), Reply)
    assert Accountant(tmp_path / "store").counts.cohorts == 2


def test_in_one_process_nobody_need_remember():
    agreed = study(policy=STANDARD)
    assert Site(agreed, Source("a", frame(100, 0)).read(agreed)).party.accountant is None


# --- a store that is lost


def test_without_its_store_a_site_that_has_answered_tells_nothing(tmp_path):
    kit = Kit(tmp_path, study(policy=STANDARD), frame(100, 0))
    assert isinstance(kit.moments(), Reply)
    lost = tmp_path / "lost"
    (tmp_path / "store").rename(lost)
    with pytest.raises(OutputError, match="fedci site store restore BACKUP.*fedci site store new --reason"):
        kit.moments()
    lost.rename(tmp_path / "store")
    assert isinstance(kit.moments(), Reply)


def test_another_store_and_one_from_before_the_last_run_are_not_taken(tmp_path):
    kit = Kit(tmp_path, study(policy=STANDARD), frame(100, 0))
    store.backup(tmp_path / "store", tmp_path / "early")
    assert isinstance(kit.moments(), Reply)
    kit.keep = tmp_path / "other"
    store.create(kit.keep)
    with pytest.raises(OutputError, match="does not know 1 of the runs"):
        kit.moments()
    store.restore(tmp_path / "again", tmp_path / "early")
    kit.keep = tmp_path / "again"
    with pytest.raises(OutputError, match="older than they are"):
        kit.moments()
    (kit.keep / FILE).unlink()
    store.restore(kit.keep, tmp_path / "early", "the newer one is lost")
    assert isinstance(kit.moments(), Reply)


def test_a_store_begun_anew_with_a_reason_is_taken(tmp_path):
    kit = Kit(tmp_path, study(policy=STANDARD), frame(101, 0).iloc[:100])
    assert isinstance(kit.moments(), Reply)
    (tmp_path / "store" / FILE).write_bytes(b"damaged")
    with pytest.raises(OutputError, match="is damaged"):
        kit.moments()
    store.create(tmp_path / "store", "no backup")
    assert isinstance(kit.moments(), Reply)


def test_a_store_that_breaks_while_a_site_runs_refuses_and_tells_no_path(tmp_path):
    kit = Kit(tmp_path, study(policy=STANDARD), frame(100, 0))
    site, agreed = kit.site, kit.agreed
    assert isinstance(site.answer(hello("run", agreed)), Reply)
    (tmp_path / "store" / FILE).unlink()
    refused = site.answer(Step("run", 2, "a", "AskColumns"))
    assert isinstance(refused, Refusal)
    assert "nothing leaves without it" in refused.reason
    assert str(tmp_path) not in refused.reason
