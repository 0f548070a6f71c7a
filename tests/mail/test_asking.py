"""`fedci coordinator next`: a study by files is the study on the network, and in one process, to the bit."""

import shutil

import numpy as np
import pytest

from fedci import FedCI, Source
from fedci.errors import AwayError, DisclosureError, FloorError, OutputError, UsageError
from fedci.mail import asking
from fedci.mail.asking import check_progress
from fedci.mail.tray import tray_of
from fedci.network import kit, party
from fedci.network.kit import RUN
from fedci.network.provision import COORDINATOR
from fedci.protocol.codec import decode, encode
from fedci.protocol.engine import Traffic
from fedci.site import floors, ledger
from fedci.site.accountant import Accountant
from support.commanded import told as told_by
from support.mailed import SITES, Mailed, plan, tables
from tests_support import small

APART = ("time", "hash", "previous", "n")
"""Of a ledger's line: when it was written, and where it stands."""


def told(mailed, site):
    """What left a site, and to which request."""
    return [{name: part for name, part in entry.items() if name not in APART}
            for entry in ledger.read(mailed.kits[site])]


def counts(mailed, site):
    """What the site's store knows of whom it told how much."""
    return Accountant(mailed.out / site / "store").counts


def same(one, other):
    """Of two results, to the bit."""
    assert np.array_equal(one.outcome.fit.theta, other.outcome.fit.theta)
    assert [step.objective for step in one.outcome.fit.rounds] == [step.objective for step in other.outcome.fit.rounds]
    for name, part in one.outcome.effects.draws.items():
        assert np.array_equal(part, other.outcome.effects.draws[name])
    for site, sums in one.outcome.effects.sums.items():
        for name, part in sums.items():
            assert np.array_equal(part, other.outcome.effects.sums[site][name])
    assert np.array_equal(one.ate().means, other.ate().means)
    assert np.array_equal(one.ate().variances, other.ate().variances)


class Wire:
    """The network's parties, their messages handed over in memory."""

    def __init__(self, mailed):
        self.sites, self.traffic, self.parties = SITES, {site: Traffic() for site in SITES}, {}
        for site in SITES:
            own = kit.read(mailed.kits[site], "site")
            party.write_run(own, {"data": str(mailed.out / site / "cohort.csv"), "approve": False, "patience": 1.0,
                                  "store": str(mailed.out / site / "store")})
            self.parties[site] = party.SiteParty(own)

    def exchange(self, requests):
        return {site: decode(self.parties[site].answer(encode(request))) for site, request in requests.items()}


def test_a_study_by_files_is_the_study_on_the_network(walked, tmp_path):
    """Every request and every answer, the linkage's and those under masks too, has the same bytes; so has the result.
    The keys of the linkage are drawn: both have the same seed of them."""
    other = walked.stages["AskLinkKey"].copied(tmp_path)
    tray = tray_of(kit.read(other.kits[COORDINATOR]))
    for site in SITES:
        for name in ("ledger.jsonl", "ledger.head"):
            (other.kits[site] / name).unlink()
        shutil.rmtree(other.out / site / "store")
    wire = Wire(other)
    found = party.conducted(kit.read(other.kits[COORDINATOR]), wire, wire.traffic, tray.run, bytes.fromhex(tray.secret))
    for site in SITES:
        wire.parties[site].ended()
        assert told(walked.mailed, site) == told(other, site)
        assert counts(walked.mailed, site) == counts(other, site)
        assert len(told(other, site)) > len(walked.steps) - 3  # not all steps ask each site
    same(walked.mailed.found(), found)


def test_and_in_one_process_on_the_rows_that_linkage_left(walked):
    found, mailed = walked.mailed.found(), walked.mailed
    kept = {site: party.kept_rows(kit.read(mailed.kits[site]), found.outcome.run) for site in SITES}
    assert sum(map(len, kept.values())) == 3 * 34
    here = FedCI(plan(ids=[])).fit([Source(site, table.iloc[kept[site]].reset_index(drop=True))
                                    for site, table in mailed.data.items()])
    same(found, here)


@pytest.mark.slow  # through doors: site/test_door.py; masked: model/shared/test_few_family.py
def test_a_study_of_few_exchanges_by_files_is_that_in_one_process(tmp_path):
    """Masked, to the bit; a letter there and back for each exchange, two where a sum is opened."""
    agreed = plan(preset="few", ids=[], options={
        "model": {"directions": 1, "knots": 3, "landmarks": 4}, "optimiser": {"rounds": 3, "draws": 4},
        "prediction": {"draws": 16}})
    mailed = Mailed(tmp_path, agreed, {site: table.drop(columns="pid") for site, table in tables().items()})
    mailed.go()
    same(mailed.found(), FedCI(agreed).fit([Source(site, table) for site, table in mailed.data.items()]))
    names = [entry["request"] for entry in ledger.read(mailed.kits[SITES[0]])]
    assert [name for name in names if name.startswith("Ask") and "Key" not in name] == [
        "AskColumns", "AskMoments", *["AskProducts"] * 3, "AskSharedEffects"]
    assert names.count("OpenSum") == 6
    assert len(names) == 4 + 2 * 6  # the handshake and three of keys


def test_the_walk_goes_through_linkage_masks_and_a_checkpoint(walked):
    """Else the equalities above would say little."""
    assert {"AskLinkKey", "WrapLinkKey", "TakeLinkKey", "AskTokens", "Exclude", "AskMaskKey", "OpenSum", "Evaluate",
            "AskEffects"} <= set(walked.steps.values())
    own = walked.stages["AskEffects"].kits[COORDINATOR]
    kept = {int(path.stem.split("-")[0]) for path in (own / RUN / "mail").glob("*/*.fedci")}
    first, last = walked.requests["Evaluate"], walked.requests["AskEffects"]
    assert set(range(walked.requests["AskLinkKey"], walked.requests["AskMaskKey"])).isdisjoint(kept)
    assert set(range(first, first + 4)).isdisjoint(kept)  # two rounds of two exchanges, before the checkpoint
    assert set(range(last - 2, last)) <= kept


def test_what_a_study_kept_is_gone_with_its_result(walked):
    own = kit.read(walked.mailed.kits[COORDINATOR])
    assert not list((own.run / "mail").glob("*/*"))
    assert not (own.run / party.CHECKPOINT).exists()
    again = walked.mailed.next()
    assert (again.result, again.went_on) == (walked.mailed.result, False)


def test_bytes_are_counted_once_as_a_network_counts_them(walked):
    seen = walked.mailed.found().traffic
    asked = {site: sum(entry["request"] != "" for entry in ledger.read(walked.mailed.kits[site])) for site in SITES}
    assert {site: seen[site].messages for site in SITES} == asked
    left = {site: sum(entry["bytes"] for entry in ledger.read(walked.mailed.kits[site])) for site in SITES}
    assert {site: seen[site].received for site in SITES} == left


# --- again, killed, missing


def letters(stands):
    return {site: path.read_bytes() for site, path in stands.requests.items()}


def test_asked_again_it_writes_the_same_requests_and_says_who_is_missing(stage):
    study = stage("AskMeans")
    before, kept = study.next(), study.files(COORDINATOR)
    study.answer("oslo", before.requests["oslo"])
    again = study.next()
    assert letters(again) == letters(before)
    assert (again.missing, again.went_on) == (("lyon", "turin"), False)
    assert study.files(COORDINATOR) == kept
    with pytest.raises(AwayError, match=r"step \d+ waits for lyon, turin"):
        check_progress(again)


def test_killed_before_its_requests_are_written_it_goes_on(stage, monkeypatch):
    study = stage("AskMeans")
    whole = study.copied(study.out.with_name("whole"))
    for one in (study, whole):
        for site, path in one.next().requests.items():
            one.answer(site, path)
    with monkeypatch.context() as patch:
        patch.setattr(asking, "_write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            study.next()
    assert letters(study.next()) == letters(whole.next())


def test_a_damaged_or_lost_record_is_mended_by_the_sites_files_or_named(stage):
    study = stage("AskSpreads")
    before = study.next()
    places = sorted((study.kits[COORDINATOR] / RUN / "mail").glob("*/*-lyon.fedci"))
    places[0].write_bytes(places[0].read_bytes()[:-1])
    places[1].unlink()
    assert letters(study.next()) == letters(before)
    assert places[1].exists()
    places[1].unlink()
    with pytest.raises(OutputError, match=r"the answers of lyon to step \d+ are lost .*--new-run"):
        study.next(answers=None)
    (study.kits[COORDINATOR] / RUN / "mail" / "standing.json").write_bytes(b"{")
    with pytest.raises(OutputError, match="is damaged. Bring it back"):
        study.next()


def test_a_refusal_is_not_kept_and_the_site_may_answer_after_it(stage):
    study = stage("AskMeans")
    stands, kept = study.next(), study.files(COORDINATOR)
    for site in ("oslo", "turin"):
        study.answer(site, stands.requests[site])
    study.answer("lyon", stands.requests["lyon"], ask=lambda words: False)  # approved before: nobody is asked again
    assert study.next().went_on
    study = stage("AskColumns")
    stands, kept = study.next(), study.files(COORDINATOR)
    for site in ("oslo", "turin"):
        study.answer(site, stands.requests[site])
    told = study.answer("lyon", stands.requests["lyon"], ask=lambda words: False)
    assert "did not approve the phase 'moments'" in told.refused
    with pytest.raises(DisclosureError, match="did not approve the phase 'moments'"):
        study.next()
    assert study.files(COORDINATOR) == kept
    study.answer("lyon", stands.requests["lyon"], out=study.answers / "again.fedci", ask=lambda words: True)
    assert study.next().step == stands.step + 1


def test_a_sites_own_policy_holds_and_the_coordinator_hears_which_value(tmp_path):
    """This one asks for masks of any study."""
    study = Mailed(tmp_path / "kits-of", plan(policy="simulation", ids=[]))
    (tmp_path / "own").mkdir()
    asks = floors.required(floors.based_on("simulation", "drawn at random"), {"secure_sum": True})
    strict = floors.write_floors(asks, tmp_path / "own" / floors.FILE).path
    stands = study.next(answers=None)
    for site in ("oslo", "turin"):
        study.answer(site, stands.requests[site])
    told = study.answer("lyon", stands.requests["lyon"], policy=strict)
    assert "secure_sum = false, and this site asks for true" in told.refused
    with pytest.raises(FloorError, match="site 'lyon': .* secure_sum = false, and this site asks for true"):
        study.next()


# --- runs and cohorts


def test_a_new_run_begins_where_asked_and_without_a_site_where_the_study_has_a_quorum(tmp_path):
    study = Mailed(tmp_path, plan(quorum=2, policy="simulation", ids=[]))
    first = study.next(answers=None)
    with pytest.raises(UsageError, match="a run keeps its sites"):
        study.next(without=("oslo",))
    with pytest.raises(UsageError, match="the kit's sites are lyon, oslo, turin"):
        study.next(new_run=True, without=("bern",))
    with pytest.raises(UsageError, match="2 sites at least"):
        study.next(new_run=True, without=("oslo", "lyon"))
    second = study.next(new_run=True, without=("oslo",))
    assert set(second.requests) == {"lyon", "turin"}
    assert second.run != first.run
    assert study.next(without=("oslo",)).run == second.run


def test_answers_of_an_earlier_run_are_left_alone(stage):
    study = stage("AskLinkKey")
    second = study.next(new_run=True)
    assert (second.step, second.missing) == (1, SITES)
    assert set(second.refused.values()) == {"it is of an earlier run, or of another coordinator's"}


def test_a_kit_of_a_network_is_for_other_commands(tmp_path, stage):
    from fedci.network.operations import run_coordinator, run_site

    study = stage("AskLinkKey")
    with pytest.raises(UsageError, match="made for files: use `fedci site answer`"):
        run_site(study.kits["lyon"], study.out / "lyon" / "cohort.csv", print)
    pytest.importorskip("nvflare")
    with pytest.raises(UsageError, match="made for files: use `fedci coordinator next`"):
        run_coordinator(study.kits[COORDINATOR], study.study, tmp_path, print)


def test_the_preset_default_with_all_that_is_told_for_decisions_and_a_refuter_too(tmp_path, capsys):
    """Two exchanges a round, and a second run whose files bear the refuter's name; an auditor recomputes every answer,
    subgroups too."""
    changes = {"preset": "default", "options": small(2), "ids": [], "diagnostics": {"refute": ["placebo"]},
               "policy": {"name": "simulation", "min_difference": 5, "min_cell": 1}, "design": "randomised",
               "subgroups": {"sex": "sex", "age": {"by": "age", "cuts": [60]}},
               "decisions": {"along": ["age", "sex"], "cost": 0.5}}
    study = Mailed(tmp_path, plan(**changes))
    assert study.go().result == study.result
    names = {path.name for path in (study.requests / "lyon").iterdir()}
    assert {"request-1.fedci", "request-placebo-1.fedci"} <= names
    found, here = study.found(), FedCI(plan(**changes)).fit([Source(site, table) for site, table in study.data.items()])
    same(found, here)
    assert found.diagnostics.refuters == here.diagnostics.refuters
    assert len(found.subgroups()) == 4
    assert {name: found.plain()[name] for name in ("subgroups", "contrasts", "decisions", "trial")} == {
        name: here.plain()[name] for name in ("subgroups", "contrasts", "decisions", "trial")}
    assert told_by(capsys, "ledger", "verify", study.kits["oslo"], "--data", study.out / "oslo" / "cohort.csv")[0] == 0
    assert [verdict.value for verdict in found.diagnostics.verdicts] == [
        verdict.value for verdict in here.diagnostics.verdicts]
