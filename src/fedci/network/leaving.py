"""What a site's message may hold: a reply or a refusal, with named sums only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedci import messages
from fedci.errors import MessageError
from fedci.messages import Message, Refusal, Reply

TOKENS = messages.TYPES.get("Tokens")


def checked(message: Message, without: Sequence[str] = ()) -> Message:
    """The message without the sums the site does not give; MessageError if it is nothing a site may send."""
    if isinstance(message, Refusal) or (TOKENS and isinstance(message, TOKENS)):
        return message
    if not isinstance(message, Reply):
        raise MessageError(f"a {type(message).__name__} may not leave a site")
    return replace(message, sums={name: value for name, value in message.sums.items() if name not in without})
