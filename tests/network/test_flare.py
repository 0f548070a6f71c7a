"""The engine's own contract, and what its envelopes become: what changes in another version of it fails here."""

import inspect
import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from nvflare.apis.filter import ContentBlockedException
from nvflare.apis.fl_constant import ReservedTopic, ReturnCode
from nvflare.apis.shareable import ReservedHeaderKey, Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.private.fed.client import client_runner

from fedci.errors import AwayError, MessageError, SiteError
from fedci.network import flare, tether
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Hello, Reply, Step

REPLY = Reply("r", 1, "lyon", {"gradient": np.ones(2), "failed": np.zeros(1)}, {})


def test_the_push_path_is_where_we_think_it_is():
    """`send_aux_request` on DO_TASK ends in the client's executor, with its filters."""
    source = inspect.getsource(client_runner.ClientRunner)
    assert ReservedTopic.DO_TASK == "__do_task__"
    assert "topic=ReservedTopic.DO_TASK, message_handle_func=self._handle_do_task" in source
    assert "self.task_result_filters" in inspect.getsource(client_runner.ClientRunner._do_task)


def test_a_job_holds_names_of_our_classes_and_no_code(tmp_path):
    folder = flare.job(tmp_path / "job", ("lyon", "oslo"))
    files = {path.relative_to(folder).as_posix(): json.loads(path.read_text())
             for path in folder.rglob("*") if path.is_file()}
    assert sorted(files) == ["app/config/config_fed_client.json", "app/config/config_fed_server.json", "meta.json"]
    paths = [files["app/config/config_fed_server.json"]["workflows"][0]["path"],
             files["app/config/config_fed_client.json"]["executors"][0]["executor"]["path"]]
    assert paths == ["fedci.network.flare.StudyController", "fedci.network.flare.SiteExecutor"]
    assert files["meta.json"]["mandatory_clients"] == ["lyon", "oslo"]


class FakeEngine:
    """Answers DO_TASK as told: a return code, a body, or nothing."""

    def __init__(self, answers, alive=False):
        self.answers, self.alive, self.threads, self.asked = answers, alive, set(), []

    def new_context(self):
        return threading.Lock()

    def send_aux_request(self, targets, topic, request, timeout, fl_ctx, optional=False):
        self.threads.add(threading.current_thread().name)
        assert topic == ReservedTopic.DO_TASK
        task = request.get_header(ReservedHeaderKey.TASK_NAME)
        assert task in (flare.TASK, flare.PING)
        self.asked.append(task)
        if task == flare.PING:
            return {target: replied() for target in targets} if self.alive else {}
        return {target: self._answer(target) for target in targets if target in self.answers}

    def _answer(self, target):
        """As told; of a list, one after the other."""
        told = self.answers[target]
        return told.pop(0) if isinstance(told, list) else told


def replied(body=None, code=ReturnCode.OK):
    reply = make_reply(code)
    if body is not None:
        reply[flare.BODY] = body
    return reply


def asked(answer):
    engine = flare.FlareEngine(FakeEngine({} if answer is None else {"lyon": answer}), ["lyon"], 5.0, Signal())
    return engine, lambda: engine.exchange({"lyon": Step("r", 1, "lyon", "AskMeans")})


def test_bytes_go_out_and_come_back_and_are_counted():
    engine, ask = asked(replied(encode(REPLY)))
    np.testing.assert_array_equal(ask()["lyon"].sums["gradient"], np.ones(2))
    assert engine.traffic["lyon"].messages == 1
    assert engine.traffic["lyon"].received == len(encode(REPLY))


def test_a_site_that_is_alive_but_slow_is_asked_the_same_again():
    late = replied(code=ReturnCode.TIMEOUT)
    fake = FakeEngine({"lyon": [late, late, replied(encode(REPLY))]}, alive=True)
    engine = flare.FlareEngine(fake, ["lyon"], 5.0, Signal())
    found = engine.exchange({"lyon": Step("r", 1, "lyon", "AskMeans")})
    np.testing.assert_array_equal(found["lyon"].sums["gradient"], np.ones(2))
    assert fake.asked == [flare.TASK, flare.PING] * 2 + [flare.TASK]


def test_a_site_that_stays_slow_is_away_in_the_end():
    fake = FakeEngine({"lyon": replied(code=ReturnCode.TIMEOUT)}, alive=True)
    with pytest.raises(AwayError, match="did not answer"):
        flare.FlareEngine(fake, ["lyon"], 5.0, Signal()).exchange({"lyon": Step("r", 1, "lyon", "AskMeans")})
    assert fake.asked.count(flare.TASK) == flare.TRIES


def test_a_site_whose_process_is_gone_is_away_long_before_the_deadline(monkeypatch):
    """Its answer never comes, and nothing answers a ping."""
    monkeypatch.setattr(flare, "WATCH_EVERY", 0.01)
    monkeypatch.setattr(flare, "GONE_SECONDS", 0.1)

    class Gone(FakeEngine):
        def _answer(self, target):
            threading.Event().wait(60.0)

    fake = Gone({"lyon": None})
    with pytest.raises(AwayError, match="'lyon' is gone"):
        flare.FlareEngine(fake, ["lyon"], 60.0, Signal()).exchange({"lyon": Step("r", 1, "lyon", "AskMeans")})
    assert fake.asked.count(flare.TASK) == 1
    assert fake.asked.count(flare.PING) > 1


def test_a_site_that_answers_pings_may_take_its_time(monkeypatch):
    monkeypatch.setattr(flare, "WATCH_EVERY", 0.01)
    monkeypatch.setattr(flare, "GONE_SECONDS", 0.02)

    class Busy(FakeEngine):
        def _answer(self, target):
            threading.Event().wait(0.3)
            return super()._answer(target)

    fake = Busy({"lyon": replied(encode(REPLY))}, alive=True)
    found = flare.FlareEngine(fake, ["lyon"], 60.0, Signal()).exchange({"lyon": Step("r", 1, "lyon", "AskMeans")})
    np.testing.assert_array_equal(found["lyon"].sums["gradient"], np.ones(2))
    assert fake.asked.count(flare.TASK) == 1


@pytest.mark.parametrize(("answer", "error", "words"), [
    (None, AwayError, "did not answer within 5 s"),
    (replied(code=ReturnCode.COMMUNICATION_ERROR), AwayError, "COMMUNICATION_ERROR"),
    (replied(code=ReturnCode.TASK_RESULT_FILTER_ERROR), SiteError, "filter blocked"),
    (replied(code=ReturnCode.EXECUTION_EXCEPTION), SiteError, "site.log"),
    (replied(code=ReturnCode.TASK_UNKNOWN), SiteError, "another version"),
    (replied(), MessageError, "without a message"),
    (replied("text"), MessageError, "without a message"),
    (replied(b"junk"), MessageError, "opening bytes differ"),
])
def test_every_other_answer_is_an_error_that_names_the_site_or_the_cause(answer, error, words):
    _, ask = asked(answer)
    with pytest.raises(error, match=words):
        ask()


def test_a_stopped_run_asks_nobody():
    engine, ask = asked(replied(encode(REPLY)))
    engine.abort.trigger("stop")
    with pytest.raises(AwayError, match="stopped"):
        ask()


def filtered(body, **options):
    shareable = Shareable()
    shareable[flare.BODY] = body
    shareable["rows"] = [1, 2, 3]
    return flare.LeavingFilter(**options).process(shareable, None)


def test_the_filter_lets_a_reply_pass_and_nothing_beside_it():
    found = filtered(encode(REPLY))
    assert set(found) == {flare.BODY, ReservedHeaderKey.HEADERS}
    assert found[flare.BODY] == encode(REPLY)


def test_a_site_may_leave_out_a_sum():
    found = decode(filtered(encode(REPLY), without=["gradient"])[flare.BODY])
    assert set(found.sums) == {"failed"}


@pytest.mark.parametrize("body", [encode(REPLY), None])
def test_nothing_passes_the_filter_once_the_command_has_ended(tmp_path, monkeypatch, body):
    """A reply without a body neither: a site that has ended does not even say that it is there."""
    held = tether.Command(tmp_path)
    monkeypatch.setenv(tether.LOCK, str(held.path))
    kept, shareable = flare.LeavingFilter(), replied(body)
    assert kept.process(shareable, None).get(flare.BODY) == body

    def exit_with(status):
        raise SystemExit(status)

    monkeypatch.setattr("os._exit", exit_with)
    held.release()
    with pytest.raises(SystemExit, match=str(tether.ENDED)):
        kept.process(shareable, None)


@pytest.mark.parametrize("run_facts", [{"command": "command-1"}, {}])
def test_a_process_that_is_not_below_the_command_of_the_run_ends(monkeypatch, run_facts):
    def exit_with(status):
        raise SystemExit(status)

    monkeypatch.setattr("os._exit", exit_with)
    lock = None if run_facts else Path("command-1")
    with pytest.raises(SystemExit, match=str(tether.ENDED)):
        flare._check_command(tether.Tether(os.getppid(), lock), run_facts)
    flare._check_command(tether.Tether(os.getppid(), Path("/kit/command-1") if run_facts else None), run_facts)


@pytest.mark.parametrize("body", [b"rows,of,people", encode(Hello("r", 1, "lyon", "0", "x", {}))])
def test_the_filter_blocks_what_is_no_reply(body):
    with pytest.raises(ContentBlockedException):
        filtered(body)
