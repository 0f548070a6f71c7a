"""A site's own policy: the file, the operator's acts, what holds in a study, and the line in the ledger before anything
leaves."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedci import Source
from fedci.errors import DisclosureError, FloorError, OutputError, SizeError, StudyError, UsageError
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Hello, Reply, Step
from fedci.site import floors, ledger
from fedci.site.door import Door
from fedci.site.floors import FIELDS, Floors, allowed, based_on, floors_at, held, note_floors, read_floors, required
from fedci.site.site import Site
from fedci.study.policy import POLICIES
from fedci.study.strictness import RULES
from fedci.version import __version__
from support.commanded import told
from tests_support import ANY_NUMBER, STANDARD_OTHERWISE, frame, study

STANDARD = POLICIES["standard"]
FILE = floors.FILE


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv(floors.VARIABLE, raising=False)


# --- the file


def test_the_file_comes_back_with_its_acts(tmp_path):
    strict = required(based_on("standard"), {"min_rows": 80})
    made = allowed(strict, {"min_cell": 5, "secure_sum": "auto"}, "board 12/3")
    written = floors.write_floors(made, tmp_path / FILE)
    assert read_floors(tmp_path / FILE) == written
    assert (written.policy.min_rows, written.policy.min_cell) == (80, 5)
    assert written.loosened["min_cell"].reason == "board 12/3"
    text = (tmp_path / FILE).read_text(encoding="utf-8")
    assert all(f"\n{key} = " in text and RULES[key].words in text for key in FIELDS)


def test_a_value_loosened_by_hand_is_refused_and_a_stricter_one_is_not(tmp_path):
    path = tmp_path / FILE
    floors.write_floors(based_on("standard"), path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("min_cell = 10", "min_cell = 30"), encoding="utf-8")
    assert read_floors(path).policy.min_cell == 30
    path.write_text(text.replace("min_cell = 10", "min_cell = 3"), encoding="utf-8")
    with pytest.raises(FloorError, match=r"min_cell = 3 .* --allow min_cell=3"):
        read_floors(path)
    floors.write_floors(allowed(based_on("standard"), {"min_cell": 5}, "why"), path)
    path.write_text(path.read_text(encoding="utf-8").replace("\nmin_cell = 5", "\nmin_cell = 4"), encoding="utf-8")
    with pytest.raises(FloorError, match="no reason"):
        read_floors(path)


@pytest.mark.parametrize("text, error, fragment", [
    ("min_cel = 3", StudyError, "'min_cell'"), ('base = "lax"', StudyError, "'lax'"),
    ("min_cell = ", StudyError, "TOML"),
    ('min_rows = "many"', StudyError, "min_rows"), ("[loosened.min_cell]\nvalue = 3", FloorError, "reason"),
    ("base = 3", StudyError, "base"), ('base = "simulation"', FloorError, "looser"),
    ("name = 'x'", StudyError, "name")])
def test_a_file_that_is_none(tmp_path, text, error, fragment):
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(error, match=fragment):
        read_floors(tmp_path / FILE)


def test_a_file_that_others_can_write_is_not_believed(tmp_path):
    floors.write_floors(based_on("standard"), tmp_path / FILE).path.chmod(0o666)
    with pytest.raises(OutputError, match="chmod go-w"):
        read_floors(tmp_path / FILE)


def test_where_it_stands(tmp_path, monkeypatch):
    kit = tmp_path / "site" / "lyon"
    kit.mkdir(parents=True)
    assert floors_at(kit) == Floors()  # none: the real `standard`
    floors.write_floors(required(Floors(), {"min_rows": 60}), kit.parent / FILE)
    assert floors_at(kit).policy.min_rows == 60
    floors.write_floors(required(Floors(), {"min_rows": 70}), tmp_path / "other.toml")
    monkeypatch.setenv(floors.VARIABLE, str(tmp_path / "other.toml"))
    assert floors_at(kit).policy.min_rows == 70
    assert floors_at(kit, kit.parent / FILE).policy.min_rows == 60
    for wrong in ({"named": tmp_path / "gone.toml"}, {}):
        monkeypatch.setenv(floors.VARIABLE, str(tmp_path / "gone.toml"))
        with pytest.raises(StudyError, match="cannot be read"):  # a place that was named is not taken for none
            floors_at(kit, **wrong)


# --- the operator's acts


def test_loosening_needs_a_reason_and_tightening_none():
    with pytest.raises(UsageError, match="--reason"):
        allowed(Floors(), {"min_cell": 5}, " ")
    with pytest.raises(UsageError, match="--allow"):
        required(Floors(), {"min_cell": 5})
    with pytest.raises(UsageError, match="--reason"):
        based_on("simulation")
    with pytest.raises(UsageError, match="needs 'standard'"):
        based_on("custom", "why")
    assert allowed(Floors(), {"min_cell": 15}, "").loosened == {}
    back = required(allowed(Floors(), {"min_cell": 5}, "why"), {"min_cell": 10})
    assert (back.policy.min_cell, back.loosened) == (10, {})
    lax = based_on("simulation", "simulated")
    assert {"min_rows", "secure_sum"} <= set(lax.loosened)
    assert required(Floors(), {"epsilon": 2.0, "delta": 1e-6}).policy.epsilon == 2.0


@pytest.mark.parametrize("text, value", [("min_cell=5", ("min_cell", 5)), ("secure_sum=auto", ("secure_sum", "auto")),
                                         ("secure_sum=true", ("secure_sum", True)), ("epsilon=none", ("epsilon", None)),
                                         ('noised=["effects"]', ("noised", ("effects",)))])
def test_a_value_as_typed(text, value):
    assert floors.value_of(text) == value


@pytest.mark.parametrize("text", ["min_cell", "=5", "min_cell=", "cell=5"])
def test_what_is_no_value(text):
    with pytest.raises((UsageError, StudyError), match="KEY=VALUE|unknown key"):
        floors.value_of(text)


def test_the_command_makes_changes_and_explains(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = told(capsys, "site", "policy")
    assert code == 0
    assert "Written: site-policy.toml" in out
    assert "min_difference" in out
    assert read_floors(Path(FILE)).values() == {key: getattr(STANDARD, key) for key in FIELDS}
    code, _, err = told(capsys, "site", "policy", "--allow", "min_cell=5")
    assert code == 2
    assert "--reason" in err
    assert told(capsys, "site", "policy", "--allow", "min_cell=5", "--reason", "board 12/3")[0] == 0
    code, out, _ = told(capsys, "site", "policy")
    assert "Loosened from 10" in " ".join(out.replace("│", " ").split())
    assert read_floors(Path(FILE)).loosened["min_cell"].reason == "board 12/3"
    assert told(capsys, "site", "policy", "--base", "standard")[0] == 0
    assert read_floors(Path(FILE)).loosened == {}


# --- in a study


def test_every_value_is_told_with_who_set_it():
    plan = study(policy={"name": "custom", "min_cell": 3, "min_rows": 90, "secure_sum": False,
                         "statistics_per_row": 0.5})
    here = required(Floors(path=Path(FILE)), {"max_rounds": 150})
    here = allowed(here, {"statistics_per_row": 0.6}, "large hospital")
    rows = {one.key: one for one in held(plan, here)}
    assert set(rows) == set(RULES)
    assert (rows["min_cell"].holds, rows["min_cell"].by) == (10, "the site")
    assert (rows["min_rows"].holds, rows["min_rows"].by) == (90, "the study")
    assert (rows["max_rounds"].study, rows["max_rounds"].holds) == (200, 150)
    assert (rows["min_difference"].holds, rows["min_difference"].by) == (20, "both")
    assert rows["statistics_per_row"].holds == 0.5
    assert rows["statistics_per_row"].by == "the study; the site allows it: large hospital"
    assert (rows["secure_sum"].holds, rows["secure_sum"].by) == (None, "refused: all parties must agree")
    assert {one.key: one.by for one in held(plan, Floors())}["min_cell"] == "the site ('standard')"


def hello(site: Site, run: str = "run") -> Hello:
    plan = site.party.agreed
    return Hello(run, 1, site.name, __version__, plan.hash(), {site.name: True})


def test_a_site_applies_its_floor_where_it_can():
    """The moments of a trait that nine people have stay, though the study would have them told; the hash is the
    study's."""
    plan = study(policy={**STANDARD_OTHERWISE, "min_cell": 3, "secure_sum": "auto"})
    rare = frame(60, 0).assign(sex=[1] * 9 + [0] * 51, w=[1, 0] * 30)
    masks = STANDARD.model_copy(update={**STANDARD_OTHERWISE, "secure_sum": "auto"})  # one site is asked, by itself
    for held_study, kept in ((plan, False), (plan.under(masks), True)):
        assert held_study.hash() == plan.hash()
        site = Site(held_study, Source("a", rare).read(held_study))
        assert isinstance(site.answer(hello(site)), Reply)
        assert bool(site.answer(Step("run", 2, "a", "AskColumns")).sums["withheld"][2]) == kept
    strict = study(policy="simulation").under(required(Floors(), {"min_rows": 61}).policy)
    with pytest.raises(SizeError, match="61"):
        Source("a", rare).read(strict)


def test_a_site_refuses_at_the_handshake_what_it_cannot_apply_alone():
    changes, key = {"secure_sum": False}, "secure_sum"
    plan = study(policy={"name": "custom", **changes}).under(STANDARD)
    site = Site(plan, Source("a", frame(60, 0)).read(plan))
    refused = site.answer(hello(site))
    assert refused.code == FloorError.code
    assert f"{key} = false, and this site asks for true" in refused.reason
    lax = study(policy={"name": "custom", **changes}).under(allowed(Floors(), changes, "why").policy)
    assert isinstance(Site(lax, Source("a", frame(60, 0)).read(lax)).answer(hello(site)), Reply)


def test_the_coordinator_hears_the_floor_in_full(tmp_path):
    """A count of people would not leave in a refusal; values of two policies may."""
    plan = study(policy={"name": "custom", "epsilon": 4.0, "delta": 1e-6, "noised": ("effects",), "effect_bound": 1.0})
    plan = plan.under(required(Floors(), {"epsilon": 2.0, "delta": 1e-6, "noised": ("effects",)}).policy)
    site = Site(plan, Source("a", frame(60, 0)).read(plan))
    with ledger.Ledger(tmp_path) as kept:
        back = decode(Door(site, kept, tmp_path).answer(encode(hello(site))))
    assert "epsilon = 4, and this site asks for 2" in back.reason


def test_a_refuter_and_linkage_run_under_the_floors_too():
    plan = study(policy={"name": "custom", "min_rows": 10, "secure_sum": "auto"}).under(STANDARD)
    assert plan.refuted().policy.min_rows == 50
    assert plan.refuted().agreed_policy.min_rows == 10
    assert plan.under(None).policy.min_rows == 10


# --- the ledger


def test_a_loosening_is_in_the_ledger_before_anything_leaves(tmp_path):
    loose = allowed(Floors(), {"min_cell": 5}, "board 12/3")
    with ledger.Ledger(tmp_path) as kept:
        assert note_floors(kept, Floors()) is None  # nothing loosened, nothing said before
        line = note_floors(kept, loose)
        assert note_floors(kept, loose) is None  # the same again
        plan = study().under(loose.policy.model_copy(update={"secure_sum": False}))
        site = Site(plan, Source("a", frame(60, 0)).read(plan))
        Door(site, kept, tmp_path).answer(encode(hello(site)))
        entries = kept.entries
        assert (line["reply"], line["phase"], line["n"]) == (ledger.NOTE, "policy", 1)
        act = line["notes"]["loosened"]["min_cell"]
        assert (act["value"], act["reason"]) == ("5", "board 12/3")
        assert "min_cell = 5 (board 12/3)" in line["reason"]
        assert [entry["request"] for entry in entries] == ["", "Hello"]
        assert note_floors(kept, Floors())["notes"]["loosened"] == {}  # and that it is over
    assert ledger.verify(tmp_path).ok
    assert ledger.totals(ledger.read(tmp_path))[0].answers == 0


def test_a_ledger_that_cannot_be_written_lets_nothing_be_loosened(tmp_path):
    kept = ledger.Ledger(tmp_path)
    kept.close()
    with pytest.raises(OutputError, match="closed"):
        note_floors(kept, allowed(Floors(), {"min_cell": 5}, "why"))


def test_loosening_the_site_makes_the_study_run_and_only_then():
    """Two sites in the clear: by the study and by every site, or not at all."""
    from fedci.site.admission import reasons, situation

    plan = study(policy={**STANDARD_OTHERWISE, "secure_sum": "auto"})
    table = Source("a", frame(120, 0)).read(plan)
    loosened = allowed(Floors(), {"secure_sum": "auto", **ANY_NUMBER}, "why").policy
    assert reasons(situation(plan.under(STANDARD), table, 2))
    assert not reasons(situation(plan.under(loosened), table, 2))
    alone = replace(situation(study(policy="standard").under(loosened), table, 2))
    assert any(isinstance(one, DisclosureError) for one in reasons(alone))
