"""Why the coordinator is not reached, in words."""

import errno
import socket

import pytest

from fedci.network.reach import EVERY, FIRST, Lookout, why_not


def refusing(problem):
    def connect(address, seconds):
        raise problem

    return connect


@pytest.mark.parametrize("problem, said", [
    (ConnectionRefusedError(), "connection refused: the machine at study.example.org:8002 answers"),
    (TimeoutError(), "a firewall on the way drops it"), (socket.gaierror(), "is not known to this machine"),
    (OSError(errno.ENETUNREACH, "x"), "no way leads to"), (OSError(errno.EIO, "Input/output error"), "input/output")])
def test_each_reason_is_said_with_who_can_mend_it(problem, said):
    assert said in why_not("study.example.org", 8002, refusing(problem))


def test_a_port_that_nobody_listens_on_refuses_and_one_that_somebody_does_is_reached():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        assert "connection refused" in why_not("127.0.0.1", port)
        held.listen()
        assert why_not("127.0.0.1", port) == ""


def test_a_reason_is_said_once_and_that_it_is_gone():
    said, whys = [], iter(["connection refused", "connection refused", "", ""])
    lookout = Lookout("h", 1, said.append, now=0.0, look=lambda host, port: next(whys))
    lookout.seen(FIRST - 1)
    assert said == []
    for number in range(4):
        lookout.seen(FIRST + number * EVERY)
    assert said == ["waiting    connection refused", "reached    h:1 listens now"]
