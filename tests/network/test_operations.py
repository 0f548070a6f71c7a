"""What operators type: checks before anybody is reached, who is waited for, who is left out."""

import pytest

from fedci.errors import AwayError, FedciError, MessageError, OutputError, SizeError
from fedci.network import kit, operations
from fedci.network.party import write_run
from fedci.network.provision import COORDINATOR
from fedci.site import floors, ledger
from fedci.study.policy import Policy


def test_open_folders_and_other_roles_are_refused(kits):
    (kits / "kits" / "lyon").chmod(0o755)
    with pytest.raises(OutputError, match="chmod 700"):
        operations.check_kit(kits / "kits" / "lyon", "site")
    with pytest.raises(OutputError, match="needs a coordinator's"):
        operations.check_kit(kits / "kits" / "oslo", "coordinator")
    with pytest.raises(OutputError, match="is no kit"):
        operations.check_kit(kits, "site")


def test_check_site_reads_the_data_and_sends_nothing(made, capsys):
    operations.check_site(made[0] / "kits" / "lyon", made[0] / "lyon" / "cohort.csv", print)
    said = capsys.readouterr().out
    assert "whole and hardened" in said
    assert "40 rows" in said
    assert "secure_sum" in said
    assert not (made[0] / "kits" / "lyon" / "ledger.jsonl").exists()


class Session:
    """The engine's console, with these sites connected."""

    def __init__(self, *names):
        self.names = names

    def get_connected_client_list(self):
        from types import SimpleNamespace

        return [SimpleNamespace(name=name) for name in self.names]


def test_all_sites_or_enough_of_them_or_an_error_that_names_who_is_missing(made, monkeypatch):
    monkeypatch.setattr(operations, "LOOK", 0.01)
    own, said = kit.read(made[0] / "kits" / COORDINATOR), []

    def waited(session, quorum, wait=0.2):
        return operations._wait_for_sites(own, session, said.append, wait, operations.Absence(quorum, 0.05))

    assert waited(Session("turin", "lyon", "oslo"), None) == ("lyon", "oslo", "turin")
    assert waited(Session("turin", "lyon"), 2) == ("lyon", "turin")
    for session, quorum in ((Session("turin", "lyon"), None), (Session("turin"), 2)):
        with pytest.raises(AwayError, match="oslo"):
            waited(session, quorum)
    assert said[0] == "waiting    for oslo"


@pytest.mark.parametrize("quorum, ends", [(2, ("lyon", "turin")), (3, None), (None, None)])
def test_a_site_that_breaks_is_left_out_or_ends_the_run_as_the_study_says(kits, monkeypatch, quorum, ends):
    """The job's events are given; the session submits nothing."""
    own, said, asked = kit.read(kits / "kits" / COORDINATOR), [], []
    write_run(own, {"sites": list(own.sites)})
    session = Session("turin", "lyon", "oslo")
    session.submit_job = lambda folder: "1"
    session.abort_job = lambda number: None
    reason = "site 'oslo' answered with 'gradient' beyond 1e+200 or not finite"

    def followed(own, session, number, present, process, say, at):
        asked.append(present)
        if "oslo" in present:
            return {"event": "failed", "code": "message", "reason": reason, "site": "oslo"}, at, False
        return {"event": "result", "out": "there"}, at, True

    monkeypatch.setattr(operations, "_follow_job", followed)
    monkeypatch.setattr(operations, "PAUSE", 0.0)
    if ends is None:
        with pytest.raises(MessageError, match="site 'oslo' answered with 'gradient'"):
            operations._conduct(own, session, None, said.append, 1.0, operations.Absence(quorum, 0.05))
        return
    operations._conduct(own, session, None, said.append, 1.0, operations.Absence(quorum, 0.05))
    assert asked == [("lyon", "oslo", "turin"), ends]
    assert f"left out   oslo, and the study starts anew: {reason}" in said


def test_a_site_that_hears_nothing_gives_up_with_words(kits):
    from types import SimpleNamespace

    own, engine = kit.read(kits / "kits" / "lyon"), SimpleNamespace(poll=lambda: None)
    kit.note(own.run, "started", rows=40)
    said = []
    with pytest.raises(AwayError, match="no word from the coordinator for 0.3 s"):
        operations._follow_site(own, engine, said.append, None, 0.3)
    assert said == ["connected  40 rows read"]
    dead = SimpleNamespace(poll=lambda: 1, returncode=1)
    with pytest.raises(AwayError, match=r"the engine ended \(status 1\)"):
        operations._follow_site(own, dead, said.append, None, 0.3)


# --- certificates


def test_a_site_tells_how_far_the_fit_is(study):
    from fedci.network.operations import Answers

    answers = Answers(study)  # 12 rounds of two exchanges
    assert answers.seen({"phase": "moments", "run": "r", "round": 1}, 0.0) == ""
    times = [0.0, 9.0, 20.0, *(20.5 + 0.5 * k for k in range(7))]  # the first answers compile, and are no measure
    lines = [answers.seen({"phase": "fit", "run": "r", "round": 2 + k}, now) for k, now in enumerate(times)]
    assert lines == [""] * 9 + ["fit        10 answers of at most 24, about 7 s left"]  # 7 rounds of a second
    assert answers.seen({"phase": "fit", "run": "r", "round": 12}, 24.0) == ""
    assert answers.seen({"phase": "fit", "run": "r-placebo", "round": 2}, 60.0) == ""  # a refuter counts anew
    assert answers.count == 1


def test_a_site_that_starts_again_goes_on_counting(study):
    """Steps that are asked again are none, and no measure of a round."""
    from fedci.network.operations import Answers

    answers = Answers(study, {"r": {2, 3, 4, 5}}.__getitem__)
    again = [answers.seen({"phase": "fit", "run": "r", "round": step}, 0.01 * step) for step in range(2, 6)]
    lines = [answers.seen({"phase": "fit", "run": "r", "round": 6 + k}, 2.0 * k) for k in range(10)]
    assert again + lines == [""] * 13 + ["fit        14 answers of at most 24, about 20 s left"]  # 5 rounds of 4 s


# --- the site's own policy


def test_without_a_policy_of_its_own_a_site_holds_to_standard_and_says_so(made, capsys, monkeypatch):
    """The study says `simulation`; the site's operator has said nothing."""
    monkeypatch.delenv(floors.VARIABLE)
    with pytest.raises(FedciError):
        operations.check_site(made[0] / "kits" / "lyon", made[0] / "lyon" / "cohort.csv", print)
    said = " ".join(capsys.readouterr().out.split())
    assert "no site-policy.toml, so the floors of 'standard' hold; `fedci site policy` makes one" in said
    assert "min_rows 2 50 50 the site ('standard')" in said
    assert "secure_sum false true refused refused: all parties must agree" in said


def test_check_site_shows_every_value_and_refuses_what_the_site_would(made, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv(floors.VARIABLE)
    place, data = tmp_path / "own.toml", made[0] / "lyon" / "cohort.csv"
    lax = floors.based_on("simulation", "drawn at random")
    floors.write_floors(floors.required(lax, {"min_rows": 100}), place)
    with pytest.raises(SizeError, match="40 rows, the policy needs 100"):
        operations.check_site(made[0] / "kits" / "lyon", data, print, place)
    floors.write_floors(floors.allowed(lax, {"min_rows": 30}, "few patients"), place)
    own, found = operations.check_site(made[0] / "kits" / "lyon", data, print, place)
    assert (own.name, found.path) == ("lyon", place)
    said = capsys.readouterr().out
    assert all(f"  {key} " in said for key in Policy.model_fields if key not in ("name", "override_reason"))


def test_a_loosening_stands_in_the_ledger_of_a_party_before_it_answers(kits, tmp_path):
    from fedci.network import party

    place = tmp_path / "own.toml"
    floors.write_floors(floors.based_on("simulation", "drawn at random"), place)
    own = kit.read(kits / "kits" / "lyon", "site")
    write_run(own, {"data": str(kits / "lyon" / "cohort.csv"), "approve": False, "patience": 1.0, "policy": str(place)})
    party.SiteParty(own).ended()
    first, = ledger.read(own.folder)
    assert (first["phase"], first["notes"]["loosened"]["min_rows"]["reason"]) == ("policy", "drawn at random")
