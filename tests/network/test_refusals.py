"""What a hardened site refuses, even of a coordinator that took its own settings off: code in a job, classes that are
not ours; and a server strangers. Real server, real site."""

import json
import time

import pytest

from fedci.network import demo, flare, kit, processes
from fedci.network.provision import new_network, place_server

WAIT = 60.0
MARK = "the-code-ran"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """(folder, console) of a server that allows everything, with one site, lyon, connected."""
    out = tmp_path_factory.mktemp("refusals")
    study = demo.make_study()
    demo.make_people(out, study, people=40, twice=2)
    new_network(study, (), "localhost", out / "kits", demo.free_port())
    own, site = kit.read(out / "kits" / "coordinator"), kit.read(out / "kits" / "lyon")
    place_server(own.engine)
    weaken(own.engine / "local")
    with processes.engine(own) as process, processes.engine(site):
        processes.wait_listening(own, process, WAIT)
        with flare.console(own) as session:
            until = time.monotonic() + WAIT
            while "lyon" not in connected(session):
                assert time.monotonic() < until
                time.sleep(0.3)
            yield out, session


def weaken(local) -> None:
    """What a malicious coordinator would do first."""
    rights = json.loads((local / "authorization.json").read_text())
    rights["permissions"]["project_admin"] = "any"
    (local / "authorization.json").write_text(json.dumps(rights))
    resources = json.loads((local / "resources.json").read_text())
    (local / "resources.json").write_text(json.dumps(resources | {"class_allow_list": ["*"]}))


def said(out, words: str, party: str = "lyon") -> bool:
    """Whether a party's logs hold these words."""
    return any(words in path.read_text(errors="replace") for path in (out / "kits" / party).rglob("*log*")
               if path.is_file())


def connected(session) -> set[str]:
    return {client.name for client in session.get_connected_client_list()}


def submitted(session, folder) -> str:
    """The job's last status; or the words with which it was not even taken."""
    try:
        number = session.submit_job(str(folder))
    except Exception as problem:  # the engine has many kinds
        return f"not taken: {problem}"
    until = time.monotonic() + WAIT
    while time.monotonic() < until:
        status = str(session.get_job_meta(number).get("status", ""))
        if status.startswith(("FINISHED", "FAILED")):
            return status
        time.sleep(0.3)
    return "no end"


def spoiled(folder, change):
    made = flare.job(folder, ("lyon",))
    path = made / "app" / "config" / "config_fed_client.json"
    content = json.loads(path.read_text())
    change(content, made)
    path.write_text(json.dumps(content))
    return made


def test_a_job_that_carries_code_is_refused(up, tmp_path):
    out, session = up
    mark = out / MARK

    def with_code(content, made):
        (made / "app" / "custom").mkdir()
        (made / "app" / "custom" / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nfrom nvflare.apis.executor import "
                                                         "Executor\nclass Evil(Executor):\n    pass\n")
        content["executors"][0]["executor"]["path"] = "evil.Evil"

    status = submitted(session, spoiled(tmp_path / "job", with_code))
    assert "COMPLETED" not in status
    assert not mark.exists()
    assert said(out, "lyon: NVFLARE_ERROR: BYOC not permitted", "coordinator")


@pytest.mark.parametrize("path", ["nvflare.app_common.np.np_trainer.NPTrainer", "subprocess.Popen", "fedci_evil.X"])
def test_a_class_outside_the_package_is_refused(up, tmp_path, path):
    out, session = up
    status = submitted(session, spoiled(
        tmp_path / "job", lambda content, _: content["executors"][0]["executor"].update(path=path)))
    assert "COMPLETED" not in status
    assert said(out, f"Component '{path}' at config path 'executors.#1.executor' is not in allow_list")
    assert not (kit.read(out / "kits" / "lyon").run / kit.EVENTS).exists()


def test_a_stranger_with_another_authoritys_certificate_is_not_let_in(up, tmp_path):
    out, session = up
    real = kit.read(out / "kits" / "coordinator")
    new_network(demo.make_study(), (), "localhost", tmp_path / "kits", real.port)
    stranger = kit.read(tmp_path / "kits" / "oslo")
    with processes.engine(stranger) as process:
        until = time.monotonic() + 12.0
        while time.monotonic() < until and process.poll() is None:
            assert "oslo" not in connected(session)
            time.sleep(0.5)
    assert "lyon" in connected(session)
    log = (stranger.run / "engine.log").read_text(errors="replace").lower()
    assert "certificate" in log or "ssl" in log or "connect" in log
