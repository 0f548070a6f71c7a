"""A kit is whole, private and hardened, and says what is not."""

import json
import stat
from datetime import UTC, datetime, timedelta

import pytest

from fedci.errors import AwayError, MessageError, OutputError, StudyError, UsageError
from fedci.network import certificates, hardening, kit, operations
from fedci.network.party import coordinate, write_run
from fedci.network.provision import COORDINATOR, new_network

PARTIES = (COORDINATOR, "lyon", "oslo", "turin")


def test_every_party_gets_a_kit_that_passes_its_own_check(made, study):
    for party in PARTIES:
        own = operations.check_kit(made[0] / "kits" / party, "coordinator" if party == COORDINATOR else "site")
        assert (own.name, own.study.hash(), own.sites) == (party, study.hash(), study.sites)


def test_only_the_owner_can_read_any_of_it(made):
    for path in (made[0] / "kits" / "lyon").rglob("*"):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path.name


def test_private_keys_are_in_one_kit_only(made):
    found = [path.read_bytes() for party in PARTIES for path in (made[0] / "kits" / party).rglob("*.key")]
    assert len(found) == len(set(found)) == 2 * 3 + 2


@pytest.mark.parametrize("name", ["study.toml", "local/resources.json", "startup/fed_client.json", "identities.json"])
def test_a_changed_file_is_named(kits, name):
    path = kits / "kits" / "lyon" / name
    path.write_text(path.read_text() + " ")
    with pytest.raises(OutputError, match=f"{name} was changed"):
        operations.check_kit(kits / "kits" / "lyon", "site")


def test_missing_and_added_files_are_named(kits):
    (kits / "kits" / "lyon" / "identity.key").unlink()
    (kits / "kits" / "lyon" / "local" / "custom.py").write_text("")
    with pytest.raises(OutputError, match=r"identity.key is missing.*custom.py was added"):
        operations.check_kit(kits / "kits" / "lyon", "site")


SPOILED = {
    "class_allow_list": lambda f: f["resources"].update(class_allow_list=["*"]),
    "allow_log_streaming": lambda f: f["resources"].update(allow_log_streaming=True),
    "log streamer": lambda f: f["resources"]["components"].append({"id": "x", "path": "a.site_log_streamer.S"}),
    "byoc": lambda f: f["authorization"]["permissions"]["project_admin"].update(byoc="any"),
    "LeavingFilter": lambda f: f["privacy"]["scopes"][0].update(task_result_filters=[]),
}


@pytest.mark.parametrize("word", SPOILED)
def test_each_weakened_setting_is_found_even_under_a_new_seal(kits, word):
    own = kits / "kits" / "lyon"
    files = {name: json.loads((own / "local" / f"{name}.json").read_text())
             for name in ("resources", "authorization", "privacy")}
    assert hardening.problems(own / "local", server=False) == []
    SPOILED[word](files)
    for name, content in files.items():
        (own / "local" / f"{name}.json").write_text(json.dumps(content))
    kit.seal(own)
    with pytest.raises(OutputError, match=word):
        operations.check_kit(own, "site")


def test_a_coordinators_kit_that_moved_keeps_its_jobs_in_its_own_folder(kits):
    own = operations.check_kit(kits / "kits" / COORDINATOR, "coordinator")
    assert str(own.engine.resolve()) in (own.engine / "local" / "resources.json").read_text()


def test_open_folders_and_other_roles_are_refused(kits):
    (kits / "kits" / "lyon").chmod(0o755)
    with pytest.raises(OutputError, match="chmod 700"):
        operations.check_kit(kits / "kits" / "lyon", "site")
    with pytest.raises(OutputError, match="needs a coordinator's"):
        operations.check_kit(kits / "kits" / "oslo", "coordinator")
    with pytest.raises(OutputError, match="is no kit"):
        operations.check_kit(kits, "site")


def test_what_cannot_be_made_is_said_before_anything_is_written(study, tmp_path):
    alone = study.model_copy(update={"sites": ()})
    for sites, error, words in (((), UsageError, "no site was named"), (("lyon", "lyon"), UsageError, "repeated"),
                                (("coordinator",), UsageError, "other side's name"),
                                (("Lyon!",), StudyError, "characters")):
        with pytest.raises(error, match=words):
            new_network(alone, sites, "localhost", tmp_path / "kits")
    with pytest.raises(StudyError, match="not in the study"):
        new_network(study, ("bern",), "localhost", tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


def test_check_site_reads_the_data_and_sends_nothing(made, capsys):
    operations.check_site(made[0] / "kits" / "lyon", made[0] / "lyon" / "cohort.csv", print)
    said = capsys.readouterr().out
    assert "whole and hardened" in said
    assert "46 rows" in said
    assert not (made[0] / "kits" / "lyon" / "ledger.jsonl").exists()


def test_events_are_read_line_by_line_as_they_come(tmp_path):
    kit.note(tmp_path, "one", n=1)
    seen, at = kit.events(tmp_path)
    assert seen == [{"event": "one", "n": 1}]
    with (tmp_path / kit.EVENTS).open("a") as file:
        file.write('{"event": "tw')
    assert kit.events(tmp_path, at) == ([], at)
    with (tmp_path / kit.EVENTS).open("a") as file:
        file.write('o"}\n')
    assert kit.events(tmp_path, at)[0] == [{"event": "two"}]


class Session:
    """The engine's console, with these sites connected."""

    def __init__(self, *names):
        self.names = names

    def get_connected_client_list(self):
        from types import SimpleNamespace

        return [SimpleNamespace(name=name) for name in self.names]


def test_all_sites_or_enough_of_them_or_an_error_that_names_who_is_missing(made, monkeypatch):
    monkeypatch.setattr(command, "LOOK", 0.01)
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

    monkeypatch.setattr(command, "_follow_job", followed)
    monkeypatch.setattr(command, "PAUSE", 0.0)
    if ends is None:
        with pytest.raises(MessageError, match="site 'oslo' answered with 'gradient'"):
            operations._conduct(own, session, None, said.append, 1.0, operations.Absence(quorum, 0.05))
        return
    operations._conduct(own, session, None, said.append, 1.0, operations.Absence(quorum, 0.05))
    assert asked == [("lyon", "oslo", "turin"), ends]
    assert f"left out   oslo, and the study starts anew: {reason}" in said


def test_a_coordinator_notes_which_site_broke(kits, study):
    """Of the numbers of a whole study one site's are changed on the way."""
    own = kit.read(kits / "kits" / COORDINATOR)

    class Broken:
        sites, traffic = ("lyon", "oslo"), {}

        def wait_ready(self):
            pass

        def exchange(self, requests):
            raise MessageError("site 'oslo': the message was damaged on its way", site="oslo")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedci.coordinator.retry.PAUSE", 0.0)
        patch.setattr("time.sleep", lambda seconds: None)
        coordinate(own, Broken(), {"seed": 0, "out": str(kits / "out")})
    last = kit.events(own.run)[0][-1]
    assert (last["event"], last["code"], last["site"]) == ("failed", "message", "oslo")


def test_a_quorum_above_the_sites_is_refused(study):
    with pytest.raises(StudyError, match="quorum = 4 is more than the 3 sites"):
        study.model_validate(study.model_dump() | {"quorum": 4})


def test_a_site_that_hears_nothing_gives_up_with_words(kits):
    from types import SimpleNamespace

    own, engine = kit.read(kits / "kits" / "lyon"), SimpleNamespace(poll=lambda: None)
    kit.note(own.run, "started", rows=46)
    said = []
    with pytest.raises(AwayError, match="no word from the coordinator for 0.3 s"):
        operations._follow_site(own, engine, said.append, None, 0.3)
    assert said == ["connected  46 rows read"]
    dead = SimpleNamespace(poll=lambda: 1, returncode=1)
    with pytest.raises(AwayError, match=r"the engine ended \(status 1\)"):
        operations._follow_site(own, dead, said.append, None, 0.3)


def test_a_site_may_have_a_dash_in_its_name(study, tmp_path):
    made = new_network(study.model_copy(update={"sites": ()}), ("saint-denis", "oslo"), "localhost", tmp_path / "kits")
    assert operations.check_kit(made["saint-denis"], "site").name == "saint-denis"


# --- certificates


def test_certificates_hold_now_and_not_in_two_years(made):
    for party in PARTIES:
        own = kit.read(made[0] / "kits" / party)
        assert certificates.problems(own) == []
        (late, *_), (early, *_) = (certificates.problems(own, datetime.now(UTC) + timedelta(days=days))
                                   for days in (800, -800))
        assert "expired on 20" in late
        assert "clock" in early


def test_a_certificate_of_another_authority_is_named_even_under_a_new_seal(kits, study, tmp_path):
    new_network(study, (), "localhost", tmp_path / "other", port=8443)
    own = kits / "kits" / "lyon"
    (own / "startup" / "client.crt").write_bytes((tmp_path / "other" / "lyon" / "startup" / "client.crt").read_bytes())
    kit.seal(own)
    with pytest.raises(OutputError, match="client.crt is not of the kit's authority"):
        operations.check_kit(own, "site")
    (own / "startup" / "client.crt").write_text("no certificate")
    kit.seal(own)
    with pytest.raises(OutputError, match="client.crt or its authority cannot be read"):
        operations.check_kit(own, "site")


def test_a_site_tells_how_far_the_fit_is(study):
    from fedci.network.operations import Answers

    answers = Answers(study)  # 12 rounds of two exchanges
    fit = {"phase": "fit", "run": "r"}
    assert answers.seen({"phase": "moments", "run": "r"}, 0.0) == ""
    assert [answers.seen(fit, float(now)) for now in range(3)] == ["", "", ""]
    assert answers.seen(fit, 12.0) == "fit        4 answers of at most 24, at most 80 s left"
    assert answers.seen(fit, 13.0) == ""
    assert answers.seen(fit | {"run": "r-placebo"}, 30.0) == ""  # a refuter counts anew
    assert answers.count == 1
