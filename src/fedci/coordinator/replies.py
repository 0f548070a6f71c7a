"""Every field of every answer, held against the table of requests before anything is made of it; the site is named.

    names     exactly the arrays that answer the request, and no note that is not the request's
    notes     the form that `protocol.notes` gives each
    arrays    shape and type by the request's row, numbers that are finite, and what is true of them at honest sites
    words     printable and bounded (`plain`), from here on
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from fedci.errors import FedciError, MessageError, from_code
from fedci.plain import all_plain, plain
from fedci.protocol.messages import Message, Refusal, Reply, Tokens
from fedci.protocol.notes import NOTES
from fedci.protocol.requests import MASKED, OWN, Request, Shapes

HUGE = 1e200
"""A number beyond this is no sum over people in model units: a site is broken, or lies."""
ASK = "Is it of another version? Ask the site, or run the study without it"
Answer = TypeVar("Answer", bound=Message)
Value = TypeVar("Value")
Rules = Mapping[str, Callable[[np.ndarray], bool]]


def refused(refusal: Refusal) -> FedciError:
    """Why a site does not answer, as an error that names it."""
    problem = from_code(refusal.code, reason(refusal))
    if isinstance(problem, MessageError):
        problem.site = refusal.site
    return problem


def reason(refusal: Refusal) -> str:
    """In the site's own words, after its name: whatever they say, they are this site's."""
    said = plain(refusal.reason) or "it gives no reason"
    return said if said.startswith(f"site '{refusal.site}'") else f"site '{refusal.site}': {said}"


def checked(reply: Answer, row: Request, secure: bool, sites: Collection[str]) -> Answer:
    """The answer, its words cleaned; MessageError names the site where it has another form than the request's row.
    `Tokens` are checked where their number is known (`check_tokens`)."""
    if not isinstance(reply, Reply):
        return reply
    masked = secure and row.summed
    _check_names(reply, row, masked)
    for name, note in reply.notes.items():
        if not NOTES[name].fits(note, reply.site, sites):
            raise MessageError(f"site '{reply.site}' answered a {row.name} with a note {name!r} that is not "
                               f"{NOTES[name].says}. {ASK}", site=reply.site)
    if "warnings" not in reply.notes:
        return reply
    return replace(reply, notes={**reply.notes, "warnings": all_plain(reply.notes["warnings"])})


def _check_names(reply: Reply, row: Request, masked: bool) -> None:
    """A site's own filter may take a sum out of its answer; nothing can be made of the rest."""
    allowed = row.leaves(masked, site_effects=True)
    needed = {MASKED} if masked else allowed
    if missing := sorted(needed - reply.sums.keys()):
        raise MessageError(f"site '{reply.site}' answered a {row.name} without {', '.join(map(repr, missing))}: a "
                           f"filter at the site takes it out. Ask the site to let it pass, or run the study without "
                           f"the site", site=reply.site)
    foreign = [*(reply.sums.keys() - allowed), *(reply.notes.keys() - row.notes_beside(masked))]
    if foreign:
        raise MessageError(f"site '{reply.site}' answered a {row.name} with {plain(repr(min(foreign)), 60)}, which is "
                           f"no part of its answer. {ASK}", site=reply.site)
    own = {name for name in reply.sums if masked and name.startswith(OWN)}
    if own and own != allowed - {MASKED}:
        raise MessageError(f"site '{reply.site}' answered a {row.name} with a part of what it tells of itself, needs "
                           f"all of it or none. {ASK}", site=reply.site)


def noted(reply: Reply, name: str, kind: type[Value]) -> Value:
    """A note without which nothing goes on."""
    value: Any = reply.notes.get(name)
    if not isinstance(value, kind):
        raise MessageError(f"site '{reply.site}' answered without '{name}'. {ASK}", site=reply.site)
    return value


def check_numbers(reply: Reply, expected: Shapes, rules: Rules | None = None) -> None:
    """MessageError names the site whose sums have another shape, or numbers that no sum over people has."""
    for name, shape in expected.items():
        array = _shaped(reply, name, shape)
        if array.size and not np.abs(array).max() < HUGE:  # NaN too
            raise MessageError(f"site '{reply.site}' answered with {name!r} beyond {HUGE:g} or not finite: it is "
                               f"broken, or lies. Ask the site, or run the study without it", site=reply.site)
        if name in (rules or {}) and not (rules or {})[name](array):
            raise MessageError(f"site '{reply.site}' answered with {name!r} of numbers that no people have (negative "
                               f"counts or variances, or too large): it is broken, or lies. Ask the site, or run the "
                               f"study without it", site=reply.site)


def _shaped(reply: Reply, name: str, shape: tuple[int, ...]) -> np.ndarray:
    array = reply.sums.get(name)
    if array is None:
        raise MessageError(f"site '{reply.site}' answered without {name!r}. {ASK}", site=reply.site)
    if array.shape != shape or array.dtype.kind not in "if":
        raise MessageError(f"site '{reply.site}' answered with {name!r} of shape {array.shape} and type {array.dtype}, "
                           f"needs {shape} and numbers. {ASK}", site=reply.site)
    return array


def check_tokens(reply: Tokens, most: int) -> None:
    """[k, 2] of int64, no more than a part has, and [k, 3] witnesses."""
    tokens, witnesses = reply.tokens, reply.witnesses
    many = len(tokens) if tokens.ndim else 0
    right = (tokens.shape, witnesses.shape) == ((many, 2), (many, 3)) and many <= most
    if not right or tokens.dtype != np.int64 or witnesses.dtype != np.int64:
        raise MessageError(f"site '{reply.site}' sent tokens of shape {tokens.shape} and type {tokens.dtype}, with "
                           f"witnesses of shape {witnesses.shape}; needs [at most {most}, 2], as many times 3, and "
                           f"int64. {ASK}", site=reply.site)
