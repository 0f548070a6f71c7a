"""What a site's message may hold: a reply, tokens or a refusal, and of a reply only the sums the site gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedci.errors import MessageError
from fedci.protocol.messages import Message, Refusal, Reply, Tokens


def checked(message: Message, without: Sequence[str] = ()) -> Message:
    """The message without the sums the site does not give; MessageError if it is nothing a site may send."""
    if isinstance(message, Refusal | Tokens):
        return message
    if not isinstance(message, Reply):
        raise MessageError(f"a {type(message).__name__} may not leave a site")
    return replace(message, sums={name: value for name, value in message.sums.items() if name not in without})
