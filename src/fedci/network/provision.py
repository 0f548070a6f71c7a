"""`fedci network new`: one sealed kit per party, with certificates of a new authority made for this study alone.

Certificates and start-up files come from the engine's own provisioner; its settings are then replaced by `hardening`'s.
Kits by files have keys of their own in their place, and need no engine.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedci.errors import UsageError
from fedci.files import check_folder, private_file
from fedci.network import hardening, kit
from fedci.network.kit import Kit
from fedci.study.policy import check_available
from fedci.study.site_name import check_site_id
from fedci.study.study import Study

CONSOLE = "coordinator@fedci.study.study"
COORDINATOR = "coordinator"
PORT = 8002
BUILDERS = ("workspace.WorkspaceBuilder", "static_file.StaticFileBuilder", "cert.CertBuilder",
            "signature.SignatureBuilder")
README = "README.txt"
ENGINES_OWN = ("readme.txt", "system_info.ipynb", "start.sh", "sub_start.sh", "stop_fl.sh", "fl_admin.sh")
"""Of the engine's kits: how to start it by itself, which would leave it untied from our commands."""
DAYS = 360
"""A certificate's life; `docs/network.md` says how to renew."""


def new_network(study: Study, sites: tuple[str, ...], host: str, folder: str | Path, port: int = PORT,
                force: bool = False) -> dict[str, Path]:
    """{party: its kit}. Nothing is written unless all of it can be."""
    names = _checked(study, sites)
    out = check_folder(folder, force)
    with tempfile.TemporaryDirectory(prefix="fedci-") as scratch:
        made = _provisioned(_project(study, names, host, port), Path(scratch))
        new = Path(scratch) / "kits"
        identities = {site: Ed25519PrivateKey.generate() for site in names}
        _coordinator(new / COORDINATOR, made, study, names, host, port)
        for site in names:
            _site(new / site, made / site, study, names, host, port, identities)
        out.mkdir(parents=True, exist_ok=True)
        _placed(new, out, names)
        place_server(out / COORDINATOR / "server")
    return {party: out / party for party in (COORDINATOR, *names)}


def new_by_files(study: Study, sites: tuple[str, ...], folder: str | Path, force: bool = False) -> dict[str, Path]:
    """{party: its kit} of a study whose messages travel as files: every party signs with an Ed25519 identity and reads
    with an X25519 key; a site knows the coordinator's, the coordinator all sites'."""
    names = _checked(study, sites)
    out = check_folder(folder, force)
    identities = {party: Ed25519PrivateKey.generate() for party in (COORDINATOR, *names)}
    mailboxes = {party: X25519PrivateKey.generate() for party in (COORDINATOR, *names)}
    publics = {party: {"identity": identities[party].public_key().public_bytes_raw().hex(),
                       "mailbox": mailboxes[party].public_key().public_bytes_raw().hex()} for party in identities}
    with tempfile.TemporaryDirectory(prefix="fedci-") as scratch:
        new = Path(scratch) / "kits"
        for party in (COORDINATOR, *names):
            own, role = new / party, "coordinator" if party == COORDINATOR else "site"
            own.mkdir(parents=True)
            _write_key(own / kit.MAILBOX, mailboxes[party].private_bytes_raw())
            _write_key(own / kit.IDENTITY, identities[party].private_bytes_raw())
            _write(own / kit.MAIL, {other: publics[other] for other in (names if role == "coordinator" else
                                                                         (COORDINATOR,))})
            if role == "site":
                _write(own / "identities.json", {site: publics[site]["identity"] for site in names})
            _common(own, study, Kit(folder=own, role=role, name=party, sites=names, host="", port=0,
                                    study_hash=study.hash(), project=project_name(study)))
        out.mkdir(parents=True, exist_ok=True)
        _placed(new, out, names)
    return {party: out / party for party in (COORDINATOR, *names)}


def _placed(new: Path, out: Path, sites: tuple[str, ...]) -> None:
    """The kits, sealed, where they belong."""
    for party in (COORDINATOR, *sites):
        if (out / party).exists():
            shutil.rmtree(out / party)
        kit.seal(new / party)
        shutil.move(new / party, out / party)


def _checked(study: Study, sites: Sequence[str]) -> tuple[str, ...]:
    names = tuple(sorted(sites or study.sites))
    if not names:
        raise UsageError("no site was named: give --site NAME for each, or list them under `sites` in the study")
    for site in names:
        check_site_id(site)
        study.check_site(site)
        if names.count(site) > 1:
            raise UsageError(f"--site {site} is repeated; name each site once")
    check_available(study.policy, len(names))
    if COORDINATOR in names:
        raise UsageError(f"a site may not be called '{COORDINATOR}': that is the other side's name")
    return names


def _project(study: Study, sites: tuple[str, ...], host: str, port: int) -> dict[str, Any]:
    """The engine's description of the study's parties."""
    parties = [{"name": host, "type": "server", "org": COORDINATOR, "fed_learn_port": port, "admin_port": port},
               {"name": CONSOLE, "type": "admin", "org": COORDINATOR, "role": "project_admin"}]
    parties += [{"name": site, "type": "client", "org": kit.organisation(site), "allow_log_streaming": False}
                for site in sites]
    return {"api_version": 3, "name": project_name(study), "description": "fedci", "participants": parties,
            "builders": [{"path": f"nvflare.lighter.impl.{name}",
                          "args": {"config_folder": "config"} if "static" in name else {}} for name in BUILDERS]}


def project_name(study: Study) -> str:
    return f"fedci-{study.hash()[:12]}"


def _provisioned(project: dict[str, Any], scratch: Path) -> Path:
    """The engine's kits, made quietly."""
    from argparse import Namespace

    from nvflare.lighter.provision import provision

    quiet = io.StringIO()
    logging.disable(logging.INFO)
    try:
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            provision(Namespace(gen_scripts=False), project, str(scratch / "project.yml"), str(scratch / "ws"))
    finally:
        logging.disable(logging.NOTSET)
    return next((scratch / "ws").rglob("prod_00"))


def _coordinator(folder: Path, made: Path, study: Study, sites: tuple[str, ...], host: str, port: int) -> None:
    folder.mkdir(parents=True)
    shutil.copytree(made / host, folder / "server")
    shutil.copytree(made / CONSOLE, folder / "console")
    _clear(folder / "server" / "local")
    _write(folder / "server" / "local" / "authorization.json", hardening.authorization())
    _common(folder, study, Kit(folder=folder, role="coordinator", name=COORDINATOR, sites=sites, host=host, port=port,
                               study_hash=study.hash(), project=project_name(study)))


def _site(folder: Path, made: Path, study: Study, sites: tuple[str, ...], host: str, port: int,
          identities: dict[str, Ed25519PrivateKey]) -> None:
    shutil.copytree(made, folder)
    _clear(folder / "local")
    for name, content in (("resources", hardening.site_resources()), ("privacy", hardening.privacy()),
                          ("authorization", hardening.authorization())):
        _write(folder / "local" / f"{name}.json", content)
    _write_key(folder / kit.IDENTITY, identities[folder.name].private_bytes_raw())
    _write(folder / "identities.json", {site: key.public_key().public_bytes_raw().hex()
                                        for site, key in identities.items()})
    _common(folder, study, Kit(folder=folder, role="site", name=folder.name, sites=sites, host=host, port=port,
                               study_hash=study.hash(), project=project_name(study)))


def _common(folder: Path, study: Study, facts: Kit) -> None:
    for name in ENGINES_OWN:
        for path in folder.rglob(name):
            path.unlink()
    (folder / README).write_text(readme(facts, study), encoding="utf-8")
    (folder / kit.STUDY).write_text(study.to_toml(), encoding="utf-8")
    kit.write_facts(facts)


def readme(own: Kit, study: Study) -> str:
    """What lies in a kit and what to type, for whoever gets it."""
    site, files = own.role == "site", own.by_files
    steps = {(True, False): ["fedci site policy                                   what this site asks of any study",
                             f"fedci site check --kit {own.name} --data cohort.csv      nothing is sent",
                             f"fedci site run --kit {own.name} --data cohort.csv        connects, waits, answers",
                             f"fedci site status --kit {own.name}                       where it stands"],
             (True, True): ["fedci site policy                                   what this site asks of any study",
                            f"fedci site check --kit {own.name} --data cohort.csv      nothing is sent",
                            f"fedci site answer request-1.fedci --kit {own.name} --data cohort.csv",
                            f"fedci site status --kit {own.name}                       where it stands"],
             (False, False): ["fedci coordinator run --kit coordinator study.toml --out result",
                              "fedci coordinator status --kit coordinator          where it stands"],
             (False, True): ["fedci coordinator next --kit coordinator --out requests",
                             "fedci coordinator next --kit coordinator answers --out requests --result result",
                             "fedci coordinator status --kit coordinator          where it stands"]}[site, files]
    way = ("Messages are files: carried by people, signed and sealed." if files else
           f"Messages go over mutual TLS to {own.host}:{own.port}"
           + ("; this machine connects outward only." if site else "; this machine listens there."))
    keys = "identity.key, mailbox.key" if files else "startup/*.key, identity.key" if site else "server/, console/"
    told = (f"What left this site: `fedci ledger {own.name}`; ledger.jsonl has it line by line." if site else
            "Nobody's rows come here: sums over sites, and the sites' own averages if the policy tells them.")
    lines = [f"fedci: the kit of the {own.role} '{own.name}'", "",
             f"Study      {study.name}: effect of {study.treatment} on {study.outcome}",
             f"Hash       {own.study_hash}", f"Sites      {', '.join(own.sites)}", "", way, "",
             "Type, in the folder that holds this kit (pip install 'fedci[network]', or 'fedci' for files):", "",
             *(f"    {step}" for step in steps), "",
             f"Keep it to yourself: {keys} are private keys. The folder must be yours alone (chmod 700), and every "
             f"file as it", "is: a changed one is refused (seal.json). run/ and out/ are made while it runs.", told, "",
             f"Logs: {'site.log' if site else 'run/error.log'}, run/engine.log; they turn over, and hold no values.",
             "Documentation: docs/site.md, docs/coordinator.md, docs/network.md, docs/files.md, docs/operations.md", ""]
    return "\n".join(lines)


def place_server(server: Path) -> None:
    """The server's settings name where its jobs lie, so they are written for the place the kit is at."""
    _write(server / "local" / "resources.json", hardening.server_resources(server.resolve()))


def _write_key(path: Path, key: bytes) -> None:
    with private_file(path, "w") as file:
        file.write(key.hex())


def _clear(local: Path) -> None:
    """The engine's samples and defaults go; its logging set-up stays."""
    for path in local.iterdir():
        if path.name.startswith(("resources", "privacy", "authorization")):
            path.unlink()


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
