"""Signals end a command once, whatever the shell that started it had set."""

import signal
import subprocess
import sys
import threading

import pytest

from fedci.network.signals import HEARD, UNLESS_IGNORED, ending

COMMAND = """
import sys, time
from fedci.network.signals import ending
with ending() as heard:
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        sys.exit(128 + heard[0])
"""


def ended(sign: signal.Signals, handled) -> int:
    """The exit code of a command that a shell started with a signal ignored, or as it is by default."""
    before = signal.signal(sign, handled)
    try:
        process = subprocess.Popen([sys.executable, "-c", COMMAND], stdout=subprocess.PIPE)
    finally:
        signal.signal(sign, before)
    with process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(sign)
        try:
            return process.wait(0.5 if sign in UNLESS_IGNORED and handled is signal.SIG_IGN else 20)
        except subprocess.TimeoutExpired:
            return 0
        finally:
            process.kill()


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_a_signal_that_the_shell_ignored_ends_the_command_all_the_same(sign):
    assert ended(sign, signal.SIG_IGN) == 128 + sign


@pytest.mark.parametrize("sign", [signal.SIGHUP, signal.SIGTSTP])
def test_a_closed_terminal_ends_the_command_unless_it_was_started_to_outlive_it(sign):
    assert ended(sign, signal.SIG_DFL) == 128 + sign
    assert ended(sign, signal.SIG_IGN) == 0


def test_the_first_one_counts_and_all_is_as_before_afterwards():
    before = [signal.getsignal(one) for one in HEARD]
    with ending() as heard:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGTERM]
    assert [signal.getsignal(one) for one in HEARD] == before


def test_in_another_thread_nothing_is_taken():
    seen = []

    def run():
        with ending() as heard:
            seen.append((heard, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [([], before)]
