"""An auditor recomputes what left, and finds the first line that does not come out of the data."""

import pytest

from fedci.coordinator.coordinator import run_study
from fedci.coordinator.refits import refuted
from fedci.site import replay
from fedci.site.ledger import REFUSAL
from support.doors import NAMES, Doors, people, plan
from tests_support import STANDARD_OTHERWISE


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """(doors after a whole study with a refuter, the tables)."""
    tables = {name: people(70 + k, k) for k, name in enumerate(NAMES)}
    study = plan(policy={**STANDARD_OTHERWISE, "min_cell": 5}, diagnostics={"refute": ["placebo"]})
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
    assert {"Hello", "AskMeans", "AskStatistics", "PullBack", "OpenSum", "AskSharedEffects"} <= {
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
