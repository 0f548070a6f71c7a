"""Persons who stand at several sites, found without their ids: keyed tokens, and a keyed choice of who stays where.

    token = first 128 bits of HMAC-SHA256(key, record)                  the sites hold the key
    order of a person's sites = HMAC-SHA256(secret, token | site name)  the coordinator holds the secret

Without the key a token says nothing about an id, however few ids there are. Without the secret a site that keeps a
person cannot tell whether another site had to give it up.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedci.errors import MessageError, SiteError

TOKEN_BYTES = 16
CHUNK = 65_536
"""Digests made at a time: bounds what stands in memory beside the result."""


def tokens(records: Sequence[bytes], key: bytes) -> np.ndarray:
    """[n, 2] int64, one row for each record: the token's two halves, big endian."""
    made = [_digests(key, records[start:start + CHUNK]) for start in range(0, len(records), CHUNK)]
    return np.concatenate([np.zeros((0, 2), np.int64), *made])


def _digests(key: bytes, messages: Iterable[bytes]) -> np.ndarray:
    """[n, 2] int64: the first 128 bits of HMAC-SHA256(key, message)."""
    data = b"".join([hmac.digest(key, message, "sha256")[:TOKEN_BYTES] for message in messages])
    return np.frombuffer(data, ">i8").reshape(-1, 2).astype(np.int64)


def sorting(rows: np.ndarray) -> np.ndarray:
    """[n] positions that put [n, 2] tokens in order; equal ones stay in the order they had."""
    return np.lexsort((rows[:, 1], rows[:, 0]))


def find(own: np.ndarray, given: np.ndarray) -> np.ndarray:
    """[k] where each of the k given tokens stands among the n own ones; MessageError if one is not there."""
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype != np.int64:
        raise MessageError(f"tokens have shape {given.shape} and type {given.dtype}, need [any, 2] and int64")
    both = np.concatenate([own, given])
    order = sorting(both)
    before = order[:-1][_same_as_next(both[order])]
    if len(before) != len(given) or (before >= len(own)).any():
        raise MessageError("the tokens to exclude are not all different, and tokens of this site")
    return before


def _same_as_next(ordered: np.ndarray) -> np.ndarray:
    return (ordered[1:] == ordered[:-1]).all(axis=1)


def choose(tokens_by_site: Mapping[str, np.ndarray], keep: int, secret: bytes) -> dict[str, np.ndarray]:
    """Site → [k, 2] tokens it must exclude, so that a person at more than `keep` sites stays at exactly `keep`."""
    sites = sorted(tokens_by_site)
    everyone = np.concatenate([tokens_by_site[site] for site in sites])
    place = np.repeat(np.arange(len(sites)), [len(tokens_by_site[site]) for site in sites])
    order = sorting(everyone)  # sites stay in order within a person
    person = np.cumsum(np.append(True, ~_same_as_next(everyone[order]))[:len(order)]) - 1
    _check_distinct(sites, place[order], person)
    repeated = np.bincount(person, minlength=1)[person] > keep
    left_out = order[repeated][~_chosen(everyone[order[repeated]], place[order[repeated]], person[repeated], sites,
                                        keep, secret)]
    return {site: everyone[np.sort(left_out[place[left_out] == s])] for s, site in enumerate(sites)}


def _check_distinct(sites: Sequence[str], place: np.ndarray, person: np.ndarray) -> None:
    twice = (person[1:] == person[:-1]) & (place[1:] == place[:-1])
    if twice.any():
        raise SiteError(f"site '{sites[place[1:][twice][0]]}' sent the same token twice")


def _chosen(persons: np.ndarray, place: np.ndarray, person: np.ndarray, sites: Sequence[str], keep: int,
            secret: bytes) -> np.ndarray:
    """[k] bool: whether the person stays at that site, being among the first `keep` in the secret's order."""
    names, data = [site.encode() for site in sites], persons.astype(">i8").tobytes()
    draws = _digests(secret, (data[TOKEN_BYTES * i:TOKEN_BYTES * (i + 1)] + names[s] for i, s in enumerate(place)))
    order = np.lexsort((draws[:, 1], draws[:, 0], person))
    first = np.searchsorted(person, person)  # `person` is in order: where each one's rows begin
    stays = np.zeros(len(person), bool)
    stays[order] = np.arange(len(person)) - first < keep
    return stays
