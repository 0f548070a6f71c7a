"""Whether a site can reach the coordinator, and if not, why, in words that an operator can act on."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

SECONDS = 2.0
FIRST, EVERY = 3.0, 30.0
"""Seconds to the first look, and between looks, while nobody has been heard."""


def why_not(host: str, port: int, connect: Callable[..., socket.socket] = socket.create_connection) -> str:
    """'' where a connection is taken; else what stands against it, and who can mend it."""
    place = f"{host}:{port}"
    try:
        connect((host, port), SECONDS).close()
    except socket.gaierror:
        return (f"the name '{host}' is not known to this machine: ask the coordinator for the right one, or your "
                f"network's people why it is not resolved")
    except ConnectionRefusedError:
        return (f"connection refused: the machine at {place} answers, and nothing listens there. The coordinator has "
                f"not started yet, or listens on another port")
    except TimeoutError:
        return (f"no answer from {place} within {SECONDS:g} s: a firewall on the way drops it, or the machine is off. "
                f"This machine must be let out to TCP port {port}")
    except OSError as problem:
        if problem.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
            return f"no way leads to {place} from this machine: is its network up, and is the address right?"
        return f"{place} cannot be reached: {(problem.strerror or type(problem).__name__).lower()}"
    return ""


class Lookout:
    """Says why the coordinator is not reached, once for each reason, until somebody is heard."""

    def __init__(self, host: str, port: int, say: Callable[[str], None], now: float,
                 look: Callable[[str, int], str] = why_not):
        self.host, self.port, self.say, self.look = host, port, say, look
        self.said: str | None = None
        self.next = now + FIRST

    def seen(self, now: float) -> None:
        """Look again if it is time to."""
        if now < self.next:
            return
        self.next = now + EVERY
        why = self.look(self.host, self.port)
        if why and why != self.said:
            self.say(f"waiting    {why}")
        elif self.said and not why:
            self.say(f"reached    {self.host}:{self.port} listens now")
        self.said = why
