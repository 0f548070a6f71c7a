"""NVIDIA FLARE carries the messages: with what makes its kits and starts its jobs, the one file that knows it.

    coordinator's job process   StudyController ─► party.coordinate(FlareEngine)
    site's job process          SiteExecutor ─► party.SiteParty.answer, then LeavingFilter on what it returns

A round is pushed: `send_aux_request` on the engine's own topic DO_TASK runs the site's executor *with* the site's
filters, without waiting for the site to poll (2.2 s a round with the engine's defaults).
"""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.filter import ContentBlockedException, Filter
from nvflare.apis.fl_constant import ReservedTopic, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.fuel.flare_api.flare_api import new_secure_session

from fedci.errors import AwayError, MessageError, SiteError
from fedci.network import kit, leaving, party
from fedci.network.provision import CONSOLE
from fedci.network.tether import ENDED, Tether
from fedci.protocol.codec import decode, encode
from fedci.protocol.engine import Traffic, decode_from
from fedci.protocol.messages import Message

TASK, PING, DONE = "fedci", "fedci-ping", "fedci-done"
"""A message of ours; whether the site's process is there; that the result is written, and the site may rest."""
BODY = "fedci"
"""Where a message's bytes stand in the engine's envelope."""
PING_TIMEOUT, PING_PAUSE, LOGIN_SECONDS, CLOSE_SECONDS = 3.0, 0.2, 30.0, 5.0
WATCH_EVERY, GONE_SECONDS = 5.0, 30.0
"""Seconds between pings of a site whose answer is awaited; without an answer to any of them for so long it is gone."""
TRIES = 3
"""How often a site that is alive but slow is asked the same again; it answers with the same bytes."""
REFUSED = {ReturnCode.TASK_RESULT_FILTER_ERROR: "its own result filter blocked the answer",
           ReturnCode.UNSAFE_JOB: "it holds the job for unsafe",
           ReturnCode.TASK_UNKNOWN: "it does not know the task: it runs another version of fedci"}


class FlareEngine:
    """The seam of the federation over FLARE; each site is asked in a thread of its own, and every wait has an end."""

    def __init__(self, engine: Any, sites: Sequence[str], deadline: float, abort: Signal):
        self.engine, self.deadline, self.abort = engine, deadline, abort
        self.sites = tuple(sorted(sites))
        self.traffic = {site: Traffic() for site in self.sites}
        self.pool = ThreadPoolExecutor(len(self.sites), thread_name_prefix="site")

    def wait_ready(self) -> None:
        """Until every site's job process answers; it takes them seconds to start."""
        list(self.pool.map(self._wait_for, self.sites))

    def _wait_for(self, site: str) -> None:
        end = time.monotonic() + self.deadline
        while time.monotonic() < end and not self.abort.triggered:
            if self._alive(site):
                return
            time.sleep(PING_PAUSE)
        raise AwayError(f"site '{site}' did not start within {self.deadline:g} s")

    def finish(self) -> None:
        """Tell every site that the result is written, and let it write its people's effects; one that does not hear it
        waits on, and its operator stops it."""
        list(self.pool.map(lambda site: self._send(site, Shareable(), DONE, self.deadline), self.sites))

    def exchange(self, requests: Mapping[str, Message]) -> Mapping[str, Message]:
        asked = {site: self.pool.submit(self._ask, site, request) for site, request in requests.items()}
        return {site: future.result() for site, future in sorted(asked.items())}

    def _ask(self, site: str, request: Message) -> Message:
        outward, envelope = encode(request), Shareable()
        envelope[BODY] = outward
        for _ in range(TRIES):
            reply = self._watched(site, envelope)
            if _answered(reply) or not self._alive(site):
                break
        seen = self.traffic[site]
        back = _body(site, reply, self.deadline)
        seen.sent, seen.received, seen.messages = seen.sent + len(outward), seen.received + len(back), seen.messages + 1
        return decode_from(site, back)

    def _watched(self, site: str, envelope: Shareable) -> Shareable | None:
        """The site's reply; AwayError when its process is gone, well before the deadline: a site that has started again
        would wait for that."""
        coming = _begun(lambda: self._send(site, envelope, TASK, self.deadline))
        heard = time.monotonic()
        while True:
            with suppress(TimeoutError):
                return coming.result(WATCH_EVERY)
            if self._alive(site):
                heard = time.monotonic()
            elif time.monotonic() - heard > GONE_SECONDS and not coming.done():
                raise AwayError(f"site '{site}' is gone: for {GONE_SECONDS:g} s nothing there has answered")

    def _alive(self, site: str) -> bool:
        """Whether its process answers at all, busy or not."""
        reply = self._send(site, Shareable(), PING, PING_TIMEOUT)
        return reply is not None and reply.get_return_code() == ReturnCode.OK

    def _send(self, site: str, envelope: Shareable, task: str, timeout: float) -> Shareable | None:
        if self.abort.triggered:
            raise AwayError("the run was stopped")
        envelope.set_header(ReservedHeaderKey.TASK_NAME, task)
        envelope.set_header(ReservedHeaderKey.TASK_ID, str(uuid.uuid4()))
        with self.engine.new_context() as context:
            replies = self.engine.send_aux_request([site], ReservedTopic.DO_TASK, envelope, timeout, context,
                                                   optional=True)
        return (replies or {}).get(site)


def _begun(work: Callable[[], Shareable | None]) -> Future[Shareable | None]:
    """In a thread that keeps no process from ending."""
    future: Future[Shareable | None] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as problem:
            future.set_exception(problem)

    Thread(target=run, daemon=True, name="answer").start()
    return future


def _answered(reply: Shareable | None) -> bool:
    """Whatever it says: late is not a word of the site's."""
    return reply is not None and reply.get_return_code() != ReturnCode.TIMEOUT


def _body(site: str, reply: Shareable | None, deadline: float) -> bytes:
    """The bytes a site answered with; AwayError where there is no answer, SiteError where it has no content."""
    code = None if reply is None else reply.get_return_code()
    if reply is not None and code == ReturnCode.OK:
        body = reply.get(BODY)
        if not isinstance(body, bytes):
            raise MessageError(f"site '{site}' answered without a message: something between us removed it", site=site)
        return body
    if code in REFUSED:
        raise SiteError(f"site '{site}' gave no answer: {REFUSED[code]}")
    if code in (ReturnCode.EXECUTION_EXCEPTION, ReturnCode.EXECUTION_RESULT_ERROR):
        raise SiteError(f"site '{site}' failed while it answered; its own log (site.log in its kit) says why")
    raise AwayError(f"site '{site}' did not answer within {deadline:g} s ({code or 'no reply'})")


class StudyController(Controller):
    """The coordinator's side of a job: runs the study and ends."""

    def start_controller(self, fl_ctx: FLContext) -> None:
        pass

    def stop_controller(self, fl_ctx: FLContext) -> None:
        pass

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        tether = Tether.here()
        tether.watch()
        server = Path(fl_ctx.get_engine().get_workspace().get_root_dir())
        own = kit.read(server.parent, "coordinator")
        run_facts = party.read_run(own)
        _check_command(tether, run_facts)
        engine = FlareEngine(fl_ctx.get_engine(), run_facts["sites"], run_facts["deadline"], abort_signal)
        party.coordinate(own, engine, run_facts)

    def process_result_of_unknown_task(self, client: Any, task_name: str, client_task_id: str, result: Shareable,
                                       fl_ctx: FLContext) -> None:
        pass


class SiteExecutor(Executor):
    """The site's side of a job: one warm process, in which the rows are read and compiled for once."""

    def __init__(self) -> None:
        super().__init__()
        self.party: party.SiteParty | None = None
        self.lock, self.tether = Lock(), Tether.here()
        self.watched = False
        self.failed: party.Failed | None = None
        """Why the site cannot answer at all: its table, its store or its policy."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.END_RUN and self.party is not None:
            self.party.ended()

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        if not self.watched:
            self.watched = True
            self.tether.watch()
        if task_name == PING and self.party is not None:
            return make_reply(ReturnCode.OK)
        with self.lock:
            if self.party is None:
                root = fl_ctx.get_engine().get_workspace().get_root_dir()
                own = kit.read(root, "site")
                _check_command(self.tether, party.read_run(own))
                try:
                    self.party = party.SiteParty(own, self.tether.check)
                except Exception as problem:  # the coordinator is told why, in words that may leave
                    self.failed = self.failed or party.failed_start(own, problem)
            if task_name == DONE and self.party is not None:
                self.party.finish()
            if task_name in (PING, DONE):
                return make_reply(ReturnCode.OK)
            reply = make_reply(ReturnCode.OK)
            asked = shareable.get(BODY) or b""
            reply[BODY] = self.party.answer(asked) if self.party is not None else party.refusal(self.failed, asked)
            return reply


def _check_command(tether: Tether, run_facts: dict[str, Any]) -> None:
    """A process that is not below the command which wrote the run's facts has no business with them."""
    if run_facts.get("command") != tether.command:
        os._exit(ENDED)


class LeavingFilter(Filter):
    """The site's result filter: only a message of ours passes, only fields its type may hold, and nothing beside it;
    and nothing at all once the operator's command has ended, however it did.

    `without`: names of sums the site does not give, whatever is asked; the coordinator then hears which are missing.
    """

    def __init__(self, without: Sequence[str] = ()):
        super().__init__()
        self.without, self.tether = tuple(without), Tether.here()

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        body = shareable.get(BODY)
        for name in [name for name in shareable if name not in (BODY, ReservedHeaderKey.HEADERS)]:
            del shareable[name]
        try:
            if body is not None:
                shareable[BODY] = encode(leaving.checked(decode(body), self.without))
        except MessageError as problem:
            raise ContentBlockedException(str(problem)) from None
        self.tether.check()
        return shareable


@contextmanager
def console(own: kit.Kit) -> Iterator[Any]:
    """The engine's console of a coordinator's kit, closed whatever happens: it takes jobs and says who is connected."""
    logging.getLogger("nvflare").setLevel(logging.ERROR)
    session = _opened(own)
    try:
        yield session
    finally:
        closing = Thread(target=_closed, args=(session,), daemon=True, name="console")
        closing.start()
        closing.join(CLOSE_SECONDS)  # it can fail or hang at its end, when nothing depends on it any more


def _closed(session: Any) -> None:
    with suppress(Exception):
        session.close()


def _opened(own: kit.Kit) -> Any:
    until = time.monotonic() + LOGIN_SECONDS
    while True:
        try:
            return new_secure_session(CONSOLE, str(own.console), timeout=LOGIN_SECONDS)
        except Exception as problem:  # the engine raises many kinds while it is starting
            if time.monotonic() > until:
                raise AwayError(f"the engine's console did not open within {LOGIN_SECONDS:g} s "
                                f"({type(problem).__name__})") from None
            time.sleep(PING_PAUSE)


def job(folder: Path, sites: Sequence[str]) -> Path:
    """A job's three files: names of installed classes, and no code."""
    files = {"meta.json": {"name": "fedci", "resource_spec": {}, "min_clients": len(sites),
                           "mandatory_clients": list(sites), "deploy_map": {"app": ["server", *sites]}},
             "app/config/config_fed_server.json": {
                 "format_version": 2, "server": {"heart_beat_timeout": 600}, "task_data_filters": [],
                 "task_result_filters": [], "components": [],
                 "workflows": [{"id": "study", "path": f"{__name__}.StudyController", "args": {}}]},
             "app/config/config_fed_client.json": {
                 "format_version": 2, "task_data_filters": [], "task_result_filters": [], "components": [],
                 "executors": [{"tasks": [TASK, PING, DONE],
                                "executor": {"path": f"{__name__}.SiteExecutor", "args": {}}}]}}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return folder
