"""An auditor recomputes what left, and finds the first line that does not come out of the data."""

import pytest

from fedci.coordinator.coordinator import run_study
from fedci.coordinator.refits import refuted
from fedci.mail.answering import shortened
from fedci.protocol.codec import decode, encode
from fedci.site import replay
from fedci.site.ledger import NOTE, REFUSAL, sha256
from support.doors import NAMES, Doors, people, plan
from tests_support import STANDARD_OTHERWISE


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """(doors after a whole study with a refuter, in which what is missing is drawn; the tables)."""
    tables = {name: people(70 + k, k) for k, name in enumerate(NAMES)}
    for table in tables.values():
        table.loc[20:35, "bmi"] = None
    study = plan(policy={**STANDARD_OTHERWISE, "min_cell": 5}, diagnostics={"refute": ["placebo"]}, missing="model")
    engine = Doors(study, tables, tmp_path_factory.mktemp("replay"))
    refuted(engine, study, run_study(engine, study))
    yield engine, tables
    engine.close()


def lines(told, name="oslo", table=None, folder=None):
    engine, tables = told
    door = engine.doors[name]
    site = engine.site(name, tables[name] if table is None else table)
    return list(replay.replayed(folder or door.folder, door.ledger.entries, site, lambda run: None))


def test_every_answer_comes_out_again_byte_for_byte(told):
    found = lines(told)
    assert {line.verdict for line in found} == {"same"}
    assert len(found) == sum(entry["reply"] != REFUSAL for entry in told[0].doors["oslo"].ledger.entries)
    assert {"Hello", "AskMeans", "AskCompletion", "AskStatistics", "PullBack", "OpenSum", "AskSharedEffects"} <= {
        line.request for line in found}


def test_one_changed_cell_is_found_at_the_first_line_that_it_enters(told):
    """An outcome enters nothing before the means; a covariate too; a treatment already tells small cells apart."""
    table = told[1]["oslo"].copy()
    table.loc[3, "y"] += 0.01
    last = lines(told, table=table)[-1]
    assert (last.request, last.ok) == ("AskMeans", False)


def test_a_line_that_calls_itself_linkage_is_recomputed_all_the_same(told):
    """Linkage is not answered again: a ledger that calls all its lines so would verify with any data."""
    engine, tables = told
    table = tables["oslo"].copy()
    table.loc[3, "y"] += 0.01
    door = engine.doors["oslo"]
    entries = [entry | {"phase": replay.LINKAGE} for entry in door.ledger.entries]
    found = list(replay.replayed(door.folder, entries, engine.site("oslo", table), lambda run: None))
    assert (found[-1].request, found[-1].ok) == ("AskMeans", False)


def test_a_request_that_was_changed_or_is_gone_is_named(told, tmp_path):
    engine, _ = told
    door = engine.doors["turin"]
    import shutil

    folder = tmp_path / "turin"
    shutil.copytree(door.folder, folder)
    run = door.ledger.entries[0]["run"]
    kept = sorted((folder / replay.ANSWERED / run).iterdir(), key=lambda path: int(path.stem))
    kept[4].write_bytes(kept[5].read_bytes())
    assert lines(told, "turin", folder=folder)[-1].verdict == "the request that was kept is another"
    kept[2].unlink()
    assert lines(told, "turin", folder=folder)[-1].verdict == "its request was not kept"


def own_run(told, name="oslo"):
    """The lines of the study's own run, without its refuter's."""
    entries = [entry for entry in told[0].doors[name].ledger.entries if entry["reply"] not in (REFUSAL, NOTE)]
    return [entry for entry in entries if entry["run"] == entries[0]["run"]]


def next_answer(told, before, entry, places):
    """SHA-256 of what a site says to a line's request that was led by these lines to where it stood."""
    folder, site = told[0].doors["oslo"].folder, told[0].site("oslo", told[1]["oslo"])
    assert replay.resumed(folder, before, site, lambda run: None, places) is None
    request = decode(replay.kept(folder, entry["run"], entry["round"]).read_bytes())
    return sha256(encode(site.answered(site.run, request)[1]))


def test_led_by_its_earlier_requests_a_site_answers_the_next_one_with_the_same_bytes(told):
    """Wherever it stopped."""
    entries = own_run(told)
    for number in range(1, len(entries), 3):
        assert next_answer(told, entries[:number], entries[number], {}) == entries[number]["reply_sha256"]


def test_where_its_places_are_kept_most_of_the_fit_need_not_be_answered_again(told, monkeypatch):
    """Of two rounds of two exchanges under masks: of the first round nothing."""
    monkeypatch.setattr("fedci.mail.answering.LONG", 2)
    monkeypatch.setattr("fedci.mail.answering.LAST", 1)
    entries, places = own_run(told), {}
    folder, site = told[0].doors["oslo"].folder, told[0].site("oslo", told[1]["oslo"])
    for entry in entries:
        assert replay.resumed(folder, [entry], site, lambda run: None, {}) is None
        if site.run.course is not None and entry["round"] in site.run.course.places:
            places[entry["round"]] = site.run.place(entry["round"])
    kept = {number: place for number, place in places.items() if place is not None}
    left_out = 0
    for number in range(len(entries) - 12, len(entries)):
        before = shortened(entries[:number])
        left_out = max(left_out, number - len(before))
        known = {at: place for at, place in kept.items() if at < entries[number]["round"]}
        assert next_answer(told, before, entries[number], known) == entries[number]["reply_sha256"]
    assert left_out > 4


def test_other_data_do_not_lead_a_site_to_where_it_stood(told):
    table = told[1]["oslo"].copy()
    table.loc[3, "y"] += 0.01
    door = told[0].doors["oslo"]
    wrong = replay.resumed(door.folder, own_run(told), told[0].site("oslo", table), lambda run: None, {})
    assert (wrong.request, wrong.verdict) == ("AskMeans", "other bytes than those that left")
