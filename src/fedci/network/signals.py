"""What an operator's signals do to a command: each of them ends it, whatever the shell that started it had set."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
"""A shell ignores the first and the last for what it starts in its background: they are heard all the same."""
UNLESS_IGNORED = (signal.SIGHUP, signal.SIGTSTP)
"""A closed terminal, and Ctrl-Z: a command that sleeps would look ended while the processes below it answer. Who starts
a command by `nohup` has said that it shall outlive its terminal."""


@contextmanager
def ending() -> Iterator[list[int]]:
    """Each of the signals raises KeyboardInterrupt, the first time; while the command ends, others change nothing.

    Yields the numbers of those heard: none yet, later one.
    """
    heard: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # Python has signals in the main thread alone
        yield heard
        return

    def hear(number: int, frame: FrameType | None) -> None:
        if not heard:
            heard.append(number)
            raise KeyboardInterrupt

    taken = [*HEARD, *(number for number in UNLESS_IGNORED if signal.getsignal(number) is not signal.SIG_IGN)]
    before = {number: signal.signal(number, hear) for number in taken}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
