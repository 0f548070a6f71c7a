"""The two parties of a run, whatever engine carries their messages: what a job process does at each."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedci.bounded import json_file, npy_file, npz_file, text_file
from fedci.coordinator.coordinator import Round, run_study
from fedci.coordinator.refits import checkpoints, refuted, wanted
from fedci.coordinator.retry import Retrying
from fedci.errors import AwayError, FedciError, MessageError, OutputError
from fedci.files import whole_file
from fedci.network import kit
from fedci.network.kit import Kit
from fedci.privacy.agreement import Credentials, read_key
from fedci.protocol.codec import decode, encode
from fedci.protocol.engine import Engine, Traffic
from fedci.protocol.messages import Refusal
from fedci.protocol.refuting import study_run
from fedci.result.individual import people_effects
from fedci.result.replacement import holds_result
from fedci.result.result import Result
from fedci.site import ledger, replay, store
from fedci.site.accountant import Accountant, act_in_words, opened
from fedci.site.door import LOG, Door, Event, public_reason, wordless
from fedci.site.floors import floors_at, note_floors
from fedci.site.following import PLACES
from fedci.site.ledger import NOTE, Ledger, Left
from fedci.site.people import People
from fedci.site.site import Site
from fedci.study.study import Study
from fedci.table.source import Source

LEDGER_SECONDS = 20.0
PATHS = re.compile(r"(?:/[^/'\"\s]+)+/([^/'\"\s]+)")
"""Where something lies on a machine is its operator's: another party hears the last part."""
CHECKPOINT = "checkpoint.npz"
LINKAGE_SEED = "linkage.seed"
"""What the keys of a linkage by files follow from; it is there while the linkage goes on, and no longer."""
FITTED = "fitted"
"""The result while its refuters run."""


def read_run(own: Kit) -> dict[str, Any]:
    """What the operator's command wrote for this run."""
    return json_file(own.run / f"{own.role}.json")


def write_run(own: Kit, facts: dict[str, Any]) -> None:
    with whole_file(own.run / f"{own.role}.json") as file:
        file.write(json.dumps(facts).encode())


class NetworkEngine(Engine, Protocol):
    """An engine whose sites start and rest with the run."""

    traffic: dict[str, Traffic]

    def wait_ready(self) -> None: ...

    def finish(self) -> None: ...


class SiteParty:
    """A site's job process: its rows behind its door. The file it reads was named by its own operator."""

    def __init__(self, own: Kit, tied: Callable[[], None] | None = None,
                 ask: Callable[[str, str], bool] | None = None):
        """`tied` returns while the operator's command lives; `ask` is asked for approval (see `Door`): without it, who
        stands at the screen of `fedci site run`, if the run's facts say so."""
        self.kit, run_facts = own, read_run(own)
        floors = floors_at(own.folder, Path(run_facts["policy"]) if run_facts.get("policy") else None)
        study = own.study.under(floors.policy)
        known = credentials(own, run_facts)
        table = Source.at(study, own.name, run_facts["data"]).read(study)
        book = _ledger(own)
        self.site = Site(study, table, known, _accountant(book, run_facts))
        approve = ask or (self._asks if run_facts["approve"] else None)
        note_floors(book, floors)
        self.door = Door(self.site, book, own.folder, approve, self._hear, tied)
        self.patience: float = run_facts["patience"]
        self.heard: list[Event] = []
        """What the door told of the question that is being answered."""
        self.writing: Thread | None = None
        kit.note(own.run, "started", rows=self.site.run.table.rows, process=os.getpid())

    def answer(self, data: bytes) -> bytes:
        self.heard = []
        back = self.door.answer(data)
        for event in self.heard[-1:]:
            if event.reply != Refusal.__name__:
                self._after(event)
        return back

    def _after(self, event: Event) -> None:
        """What the site does for itself after an answer: keep what linkage left, write its people's effects."""
        run = self.site.run
        place = kept_place(self.kit, study_run(event.run, run.refuter))
        match event.request:
            case "Hello":
                if run.course is not None and not run.course.places:
                    self.site.restore_places(places(self.kit.run, event.run))
                if place.exists() and run.linkage is None:
                    self.site.restore_linkage(npy_file(place))
            case "Exclude":
                self.keep_linked()
            case _ if run.course is not None and event.round in run.course.places:
                self._keep_place(event)
        match event.request:
            case "AskEffects" | "AskSharedEffects" if not run.refuter:
                self.writing = Thread(target=self._write_people, args=(self.site.people, event.run))
                self.writing.start()  # the coordinator need not wait for it

    def keep_linked(self) -> None:
        """Which rows a linkage that is over left; its keys are gone."""
        run = self.site.run
        if run.linkage is not None and run.linkage.staying is not None:
            with whole_file(kept_place(self.kit, run.linkage.run)) as file:
                np.save(file, run.rows, allow_pickle=False)

    def _keep_place(self, event: Event) -> None:
        """On disk before the answer leaves: a site that starts again knows where the fit stood."""
        place = self.site.run.place(event.round)
        if place is None:
            return
        with whole_file(self.kit.run / f"place-{event.run}-{event.round}.npz") as file:
            np.savez(file, allow_pickle=False, **place)
        for _, path in sorted(_place_files(self.kit.run, event.run).items())[:-PLACES]:
            path.unlink(missing_ok=True)

    def _write_people(self, people: People, run: str) -> None:
        sealed = "sealed-" if self.kit.study.diagnostics.blinded else ""
        path = self.kit.out / f"{sealed}people-{run}.csv"
        with whole_file(path) as file:
            people_effects(people).to_csv(file, index_label="row")
        kit.note(self.kit.run, "effects", people=str(path))

    def finish(self) -> None:
        """The coordinator has its result; the site's own part is written before it is told so."""
        self._written()
        kit.note(self.kit.run, "finished")

    def ended(self) -> None:
        self._written()
        self.door.ledger.close()
        kit.note(self.kit.run, "ended")

    def _written(self) -> None:
        if self.writing is not None:
            self.writing.join()

    def _hear(self, event: Event) -> None:
        self.heard.append(event)
        kit.note(self.kit.run, "answered", **vars(event))

    def _asks(self, phase: str, description: str) -> bool:
        """Ask the person at the screen of `fedci site run`, through a file; no answer in time is a no."""
        number = uuid.uuid4().hex
        kit.note(self.kit.run, "ask", number=number, phase=phase, description=description)
        answer, until = self.kit.run / f"answer-{number}", time.monotonic() + self.patience
        while time.monotonic() < until:
            if answer.exists():
                said = answer.read_text(encoding="utf-8") == "yes"
                answer.unlink()
                return said
            time.sleep(0.1)
        return False


class Failed(NamedTuple):
    """Why a site cannot answer at all, in words that may leave it."""

    site: str
    code: str
    reason: str


def failed_start(own: Kit, problem: Exception) -> Failed:
    """Noted for the site's own screen and log in full; what leaves names no path of its machine, and no count."""
    known = isinstance(problem, FedciError)
    code = problem.code if isinstance(problem, FedciError) else "site"
    full = str(problem) if known else f"an unexpected {type(problem).__name__}"
    with suppress(OSError), (own.folder / LOG).open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{datetime.now(UTC).isoformat(timespec='seconds')} before any request: {code}: "
                   f"{full if known else wordless(problem)}\n")
    kit.note(own.run, "broken", code=code, reason=full)
    told = PATHS.sub(lambda found: found[1], full)
    return Failed(own.name, code, public_reason(own.name, code, f"site '{own.name}' cannot answer: {told}. Its own "
                                                                f"file {LOG} has all of it"))


def refusal(failed: Failed | None, data: bytes) -> bytes:
    """The answer of a site that could not start to any request."""
    site, code, reason = failed or Failed("", "site", "the site is not ready")
    request = decode(data)
    return encode(Refusal(request.run, request.round, site or request.site, code, reason))


def kept_place(own: Kit, run: str) -> Path:
    """Where the rows stand that the linkage of a run left."""
    return own.run / f"kept-{run}.npy"


def kept_rows(own: Kit, run: str) -> np.ndarray | None:
    place = kept_place(own, run)
    return npy_file(place) if place.exists() else None


def _place_files(folder: Path, run: str) -> dict[int, Path]:
    name = re.compile(rf"place-{re.escape(run)}-([0-9]+)\.npz")
    return {int(match[1]): path for path in folder.iterdir() if (match := name.fullmatch(path.name))}


def places(folder: Path, run: str) -> dict[int, dict[str, np.ndarray]]:
    """Round → where the fit stood; a damaged file is as good as none: the site then refuses to go on from there."""
    found = {}
    for number, path in _place_files(folder, run).items():
        with suppress(OSError, ValueError):
            found[number] = npz_file(path)
    return found


def _ledger(own: Kit) -> Ledger:
    """Opened by one process at a time: the job before this one may take a moment to end."""
    until = time.monotonic() + LEDGER_SECONDS
    while True:
        try:
            return Ledger(own.folder)
        except OutputError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def _accountant(book: Ledger, run_facts: dict[str, Any]) -> Accountant:
    """The site's own, whatever kit; what its operator did to the store with a reason stands in this ledger too."""
    try:
        accountant = opened(store.place(run_facts.get("store")), book.entries, run_facts.get("apart") or "")
        noted = {entry["reply_sha256"] for entry in book.entries if entry["reply"] == NOTE}
        for act in accountant.acts:
            if act["hash"] not in noted:
                book.append(Left(run="", round=0, phase="store", request="", request_sha256="", reply=NOTE,
                                 reply_sha256=act["hash"], bytes=0, reason=f"the store of what this site has told: "
                                                                           f"{act_in_words(act)}"))
    except BaseException:
        book.close()
        raise
    return accountant


def credentials(own: Kit, run_facts: dict[str, Any]) -> Credentials:
    """The site's identity and its peers', from its kit; a linkage key if its operator brought one; and where a linkage
    goes on over several commands, what its keys follow from (`mail.answering`)."""
    identity = Ed25519PrivateKey.from_private_bytes(bytes.fromhex((own.folder / kit.IDENTITY).read_text()))
    peers = json_file(own.folder / "identities.json")
    key = read_key(Path(run_facts["linkage_key"])) if run_facts.get("linkage_key") else None
    seed = own.run / LINKAGE_SEED
    return Credentials(key, identity, {site: Ed25519PublicKey.from_public_bytes(bytes.fromhex(value))
                                       for site, value in peers.items()},
                       linkage_seed=bytes.fromhex(text_file(seed)) if seed.exists() else None)


def _told_before(study: Study, run_facts: dict[str, Any]) -> Accountant | None:
    """The site's store, whose secret its noise follows from; nothing is added to it."""
    folder = store.place(run_facts.get("store"))
    noised = study.policy.outcome_noise or study.noises_sums or study.policy.epsilon is not None
    return Accountant(folder, audits=True) if noised or store.exists(folder) else None


def audited(own: Kit, data: str) -> Iterator[replay.Line]:
    """What left the kit's site, recomputed from its data; OutputError where the ledger's chain is broken."""
    run_facts = read_run(own) if (own.run / f"{own.role}.json").exists() else {}
    floors = floors_at(own.folder, Path(run_facts["policy"]) if run_facts.get("policy") else None)
    study = own.study.under(floors.policy)
    known = credentials(own, run_facts)
    site = Site(study, Source.at(study, own.name, data).read(study), known, _told_before(study, run_facts))

    return replay.replayed(own.folder, ledger.read(own.folder), site, partial(kept_rows, own))


def coordinate(own: Kit, engine: NetworkEngine, run_facts: dict[str, Any]) -> None:
    """The coordinator's job process: the study from handshake to result, told to the run's events."""
    try:
        engine.wait_ready()
        kit.note(own.run, "ready", sites=list(engine.sites))
        result = conducted(own, Retrying(engine, of=(MessageError,)), engine.traffic)
        result.save(run_facts["out"], force=True)
        engine.finish()
        forget(own)
        kit.note(own.run, "result", out=str(run_facts["out"]), seconds=result.outcome.seconds)
    except AwayError as problem:
        kit.note(own.run, "paused", reason=str(problem))
    except FedciError as problem:
        kit.note(own.run, "failed", code=problem.code, reason=str(problem), site=getattr(problem, "site", ""))
    except Exception:
        (own.run / "error.log").write_text(traceback.format_exc(), encoding="utf-8")
        kit.note(own.run, "failed", code="error", reason=f"an unexpected error: see {own.run / 'error.log'}")


def conducted(own: Kit, engine: Engine, traffic: dict[str, Any], run: str | None = None,
              link_secret: bytes | None = None) -> Result:
    """The study with its refuters; what is reached is kept in the kit. `run`, `link_secret`: see `run_study`."""
    result = _fitted(own, engine, traffic, run, link_secret)
    outcome = refuted(engine, own.study, result.outcome, Telling(own), own.run / CHECKPOINT,
                      after=lambda outcome: _keep_fitted(own, replace(result, outcome=outcome)))
    return replace(result, outcome=outcome)


def forget(own: Kit) -> None:
    """What a study under way has kept, once its result is written."""
    for path in checkpoints(own.run / CHECKPOINT, own.study):
        path.unlink(missing_ok=True)
    shutil.rmtree(own.run / FITTED, ignore_errors=True)


def _fitted(own: Kit, engine: Engine, traffic: dict[str, Any], run: str | None, link_secret: bytes | None) -> Result:
    """The study's own fit; where a crash came later, among the refuters, as it was kept: the sites are past it."""
    study, folder = own.study, own.run / FITTED
    if holds_result(folder):
        earlier = Result.load(folder)
        same = (earlier.study.hash(), earlier.sites) == (study.hash(), engine.sites)
        if same and run in (None, earlier.outcome.run):
            return earlier
    outcome = run_study(engine, study, Telling(own), link_secret, own.run / CHECKPOINT, run=run)
    result = Result(study=study, outcome=outcome, people={}, traffic=traffic)
    if wanted(study):
        _keep_fitted(own, result)
    return result


def _keep_fitted(own: Kit, result: Result) -> None:
    result.save(own.run / FITTED, force=True)


class Telling:
    """Progress, to the run's events."""

    def __init__(self, own: Kit):
        self.own = own

    def __call__(self, seen: Round) -> None:
        kit.note(self.own.run, "round", number=seen.number, cap=seen.cap, objective=seen.objective,
                 seconds=seen.seconds, few=seen.few)

    def begin(self, what: str) -> None:
        kit.note(self.own.run, "begin", what=what)
