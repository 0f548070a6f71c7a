"""`fedci coordinator next`: takes answers that came as files, and writes the requests that follow, or the result."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedci.errors import AwayError, OutputError, UsageError
from fedci.files import whole_file
from fedci.mail.answering import file_name
from fedci.mail.carrier import Found, MailEngine, Unanswered
from fedci.mail.letter import REQUEST
from fedci.mail.post import Post, post_of
from fedci.mail.tray import FOLDER, Tray, tray_of
from fedci.network import kit, party, processes
from fedci.network.kit import Kit
from fedci.network.operations import check_kit, check_way
from fedci.protocol.codec import encode
from fedci.protocol.messages import OpenSum
from fedci.protocol.requests import asked as asked_by
from fedci.protocol.requests import row_of

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a command came to."""

    run: str
    result: Path | None = None
    """Where the result is; none: the study goes on."""
    step: int = 0
    phase: str = ""
    request: str = ""
    requests: dict[str, Path] = field(default_factory=dict)
    """Site → the file for it."""
    missing: tuple[str, ...] = ()
    """Sites whose answer is waited for."""
    went_on: bool = True
    """Whether anything came of the command: answers were taken, or requests written that were not there."""
    refused: dict[str, str] = field(default_factory=dict)
    """File among the answers → why nothing was made of it."""
    old: int = 0
    """Answers to earlier steps that lay there as well."""
    round: str = ""
    """How far the fit is, in words."""


def go_on(folder: str | Path, answers: Path | None, out: Path, result: Path, new_run: bool = False,
          without: Sequence[str] = ()) -> Standing:
    """From the answers in a folder to the next requests, one for each site that is asked, or to the result.

    answers    none: before there are any
    new_run    begin anew, where the study allows more than one run
    without    sites that take no part in it, where the study has a quorum
    """
    own = check_kit(folder, "coordinator")
    check_way(own, by_files=True)
    post = post_of(own)
    with processes.command(own):
        tray = _tray(own, new_run, tuple(without))
        if tray.result:
            return Standing(run=tray.run, result=Path(tray.result), went_on=False)
        (own.run / kit.EVENTS).unlink(missing_ok=True)
        found = Found.at(answers, post, tray) if answers is not None else Found()
        engine = MailEngine(post, tray, found)
        try:
            made = party.conducted(own, engine, tray.traffic, tray.run, bytes.fromhex(tray.secret))
        except Unanswered as waiting:
            return _asked(own, post, engine, waiting, out)
        engine.take()
        replace(made, traffic=tray.traffic).save(result, force=True)
        tray.result = str(result.resolve())
        tray.write()
        tray.clear()
        party.forget(own)
        return Standing(run=tray.run, result=result, refused=found.refused, old=_old(found, engine, None))


def _tray(own: Kit, new_run: bool, without: tuple[str, ...]) -> Tray:
    """That of the run under way; or of a new one, on disk before anything leaves."""
    if not new_run and (tray := tray_of(own)) is not None:
        if tray.study != own.study_hash:
            raise OutputError(f"'{own.run / FOLDER}' is of another study than the kit. Begin a new run (--new-run)")
        if without and tray.sites != tuple(site for site in own.sites if site not in without):
            raise UsageError("a run keeps its sites: begin a new one without these (--new-run --without NAME)")
        return tray
    sites = _cohort(own, without)
    earlier = Tray(folder=own.run / FOLDER, study="", run="", sites=(), secret="")
    earlier.clear()
    party.forget(own)
    tray = replace(earlier, study=own.study_hash, run=secrets.token_hex(8), sites=sites, secret=secrets.token_hex(32))
    tray.write()
    return tray


def _cohort(own: Kit, without: tuple[str, ...]) -> tuple[str, ...]:
    for site in without:
        if site not in own.sites:
            raise UsageError(f"--without {site}: the kit's sites are {', '.join(own.sites)}")
    sites = tuple(site for site in own.sites if site not in without)
    if without and (own.study.quorum is None or len(sites) < own.study.quorum):
        least = "all its sites" if own.study.quorum is None else f"{own.study.quorum} sites at least"
        raise UsageError(f"--without: the study is of {least} (quorum in the study file). Make kits for a study of "
                         f"fewer sites, if all of them agree")
    return sites


def _asked(own: Kit, post: Post, engine: MailEngine, waiting: Unanswered, out: Path) -> Standing:
    """The requests, on disk: written anew, they are the same to the bit."""
    tray = engine.tray
    tray.asked = waiting.run, waiting.step
    tray.write()
    tray.forget(engine.used)
    places, new = {}, engine.went_on
    for site, request in sorted(waiting.requests.items()):
        data = post.request(encode(request), site, waiting.run, waiting.step, engine.sites)
        places[site] = out / site / file_name(REQUEST, waiting.run, waiting.step)
        new |= _write(places[site], data)
    first = next(iter(waiting.requests.values()))
    phase = "a sum is opened" if isinstance(first, OpenSum) else row_of(first).phase
    return Standing(run=waiting.run, step=waiting.step, phase=phase, request=asked_by(first),
                    requests=places, missing=waiting.missing, went_on=new, refused=engine.found.refused,
                    old=_old(engine.found, engine, waiting), round=_round(own))


def _write(place: Path, data: bytes) -> bool:
    """Whether it was not there."""
    try:
        if place.is_file() and place.stat().st_size == len(data) and place.read_bytes() == data:
            return False
        place.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(place) as file:
            file.write(data)
    except OSError as problem:
        raise OutputError(f"'{place}' cannot be written: {(problem.strerror or 'unknown').lower()}. Nothing was lost: "
                          f"choose another --out, and run the same command again") from None
    return True


def _old(found: Found, engine: MailEngine, waiting: Unanswered | None) -> int:
    """How many letters of earlier steps lay among the answers; one of a step that was not asked yet is refused."""
    old = 0
    for (run, step, _), paths in found.letters.items():
        if waiting is not None and (run, step) == (waiting.run, waiting.step):
            continue
        if waiting is not None and run == waiting.run and step > waiting.step:
            for path in paths:
                found.refuse(path, f"it answers step {step}, which was not asked yet")
        else:
            old += len(paths)
    return old


def _round(own: Kit) -> str:
    rounds = [event for event in kit.events(own.run)[0] if event["event"] == "round"]
    if not rounds:
        return ""
    return f"{rounds[-1]['number']} of at most {rounds[-1]['cap']}, objective {rounds[-1]['objective']:.3f}"


def check_progress(standing: Standing) -> None:
    """AwayError where the command found nothing new: whose answers are waited for."""
    if standing.went_on or standing.result is not None:
        return
    raise AwayError(f"step {standing.step} waits for {', '.join(standing.missing)}: no answer of theirs is among the "
                    f"files. Their requests are {', '.join(str(standing.requests[site]) for site in standing.missing)}")
