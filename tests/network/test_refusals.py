"""What a hardened site refuses, even of a coordinator that took its own settings off: code in a job, classes that are
not ours; and a server strangers. Real server, real site."""

import json
import re
import shutil
import socket
import ssl
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256

from fedci.errors import OutputError
from fedci.network import flare, kit, operations, processes, provision, rehearsal
from fedci.network.provision import new_network, place_server

WAIT = 60.0
MARK = "the-code-ran"


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """(folder, console) of a server that allows everything, with one site, lyon, connected."""
    out = tmp_path_factory.mktemp("refusals")
    study = rehearsal.make_study()
    rehearsal.make_people(out, study, people=40, twice=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provision, "_provisioned", keeping_the_authority(out))
        new_network(study, (), "localhost", out / "kits", rehearsal.free_port())
    own, site = kit.read(out / "kits" / "coordinator"), kit.read(out / "kits" / "lyon")
    place_server(own.engine)
    weaken(own.engine / "local")
    with running(own) as process, running(site):
        processes.wait_listening(own, process, WAIT)
        with flare.console(own) as session:
            until = time.monotonic() + WAIT
            while "lyon" not in connected(session):
                assert time.monotonic() < until
                time.sleep(0.3)
            yield out, session


@contextmanager
def running(own):
    """The engine of a kit, below a command that is this process."""
    with processes.command(own) as held, processes.engine(own, held) as process:
        yield process


def keeping_the_authority(out):
    """The provisioner, which leaves a copy of the authority's key: no kit has it, and a test must sign with it."""
    made = provision._provisioned

    def provisioned(project, scratch):
        found = made(project, scratch)
        shutil.copy(next((scratch / "ws").rglob("cert.json")), out / "authority.json")
        return found

    return provisioned


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
    new_network(rehearsal.make_study(), (), "localhost", tmp_path / "kits", real.port)
    stranger = kit.read(tmp_path / "kits" / "oslo")
    with running(stranger) as process:
        until = time.monotonic() + 12.0
        while time.monotonic() < until and process.poll() is None:
            assert "oslo" not in connected(session)
            time.sleep(0.5)
    assert "lyon" in connected(session)
    log = (stranger.run / "engine.log").read_text(errors="replace").lower()
    assert "certificate" in log or "ssl" in log or "connect" in log


# --- certificates, presented to the server that runs


def signed(out, name: str, ended: datetime):
    """(certificate, key) files of a site, signed by the study's own authority, good until `ended`."""
    authority = json.loads((out / "authority.json").read_text())
    root = x509.load_pem_x509_certificate(authority["root_cert"].encode())
    signing = serialization.load_pem_private_key(authority["root_pri_key"].encode(), None)
    key = rsa.generate_private_key(65537, 2048)
    subject = x509.load_pem_x509_certificate((out / "kits/lyon/startup/client.crt").read_bytes()).subject
    made = (x509.CertificateBuilder().subject_name(subject).issuer_name(root.subject).public_key(key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(ended - timedelta(days=360))
            .not_valid_after(ended).sign(signing, SHA256()))
    (out / f"{name}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (out / f"{name}.key").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return out / f"{name}.crt", out / f"{name}.key"


def presented(out, files) -> str:
    """What the running server makes of whoever shows this certificate: "let in", or the words of its refusal."""
    own = kit.read(out / "kits" / "coordinator")
    context = ssl.create_default_context(cafile=str(out / "kits/lyon/startup/rootCA.pem"))
    context.set_alpn_protocols(["h2"])
    if files:
        context.load_cert_chain(*map(str, files))
    with socket.create_connection(("localhost", own.port), 10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as safe:
                safe.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))  # no settings
                assert safe.version() == "TLSv1.3"
                return "let in" if safe.recv(64) else "closed"
        except (ssl.SSLError, ConnectionError) as problem:
            return str(problem)


def test_an_expired_a_foreign_and_a_missing_certificate_are_refused_by_the_running_server(up, tmp_path):
    """The very subject of a site, signed by the study's own authority: only the date is wrong. The engine hangs up
    without a word (EOF), so the site's own command says why, before it connects."""
    out, session = up
    own = out / "kits/lyon/startup"
    expired = signed(out, "expired", datetime.now(UTC) - timedelta(days=1))
    new_network(rehearsal.make_study(), (), "localhost", tmp_path / "kits", kit.read(out / "kits" / "coordinator").port)
    other = tmp_path / "kits/lyon/startup"
    for files in ((own / "client.crt", own / "client.key"), signed(out, "fresh", datetime.now(UTC) + timedelta(1))):
        assert presented(out, files) == "let in"
    for files in (expired, (other / "client.crt", other / "client.key"), None):
        assert re.search("EOF|closed|reset|(?i:certificate)", presented(out, files))
    assert "lyon" in connected(session)
    shutil.copytree(out / "kits" / "lyon", tmp_path / "lyon", ignore=shutil.ignore_patterns("run"))
    for name, path in zip(("client.crt", "client.key"), expired, strict=True):
        shutil.copy(path, tmp_path / "lyon/startup" / name)
    kit.seal(tmp_path / "lyon")
    with pytest.raises(OutputError, match="client.crt expired on 20.*make new kits"):
        operations.check_kit(tmp_path / "lyon", "site")


def test_a_server_with_an_expired_certificate_is_refused_by_a_site(up):
    """The other direction, with a plain TLS server: what a site's own authority file makes of such a server."""
    out, _ = up
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*map(str, signed(out, "old-server", datetime.now(UTC) - timedelta(days=1))))
    client = ssl.create_default_context(cafile=str(out / "kits/lyon/startup/rootCA.pem"))
    client.check_hostname = False
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server)
    two = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (one, two):  # the client's greeting, the server's certificate
        with pytest.raises(ssl.SSLWantReadError):
            side.do_handshake()
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        one.do_handshake()
