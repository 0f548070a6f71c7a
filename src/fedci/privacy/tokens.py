"""Persons who stand at several sites, found without their ids: keyed tokens, and a keyed choice of who stays where.

    token = first 128 bits of HMAC-SHA256(key, record)                       the sites hold the key
    witness = nonce | first 128 bits of HMAC-SHA256(key', token | nonce)     and key'; the nonce is each site's own
    order of a person's sites = HMAC-SHA256(secret, token | site name)       the coordinator holds the secret

Without the key a token says nothing about an id, however few ids there are. Without the secret a site that keeps a
person cannot tell whether another site had to give it up. A site leaves a person out only when it is shown another
site's witness of the same token, which the coordinator cannot make: so nobody chooses whom a site leaves out. Which
site's it is, a witness does not say.
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


def witnesses(made: np.ndarray, key: bytes, secret: bytes) -> np.ndarray:
    """[n, 3] int64 for [n, 2] tokens: a nonce that follows from the site's `secret`, and the proof under the `key`."""
    nonces = _digests(secret, _each(made))[:, :1]
    return np.hstack([nonces, _proofs(made, nonces, key)])


def _proofs(made: np.ndarray, nonces: np.ndarray, key: bytes) -> np.ndarray:
    return _digests(key, _each(np.hstack([made, nonces])))


def _each(rows: np.ndarray) -> Iterable[bytes]:
    """The rows as bytes, big endian."""
    data, width = np.ascontiguousarray(rows.astype(">i8")).tobytes(), 8 * rows.shape[1]
    return (data[at:at + width] for at in range(0, len(data), width))


def are_elsewhere(made: np.ndarray, given: np.ndarray, own: np.ndarray, keep: int, key: bytes) -> bool:
    """Whether each of [k, 2] tokens comes with `keep` different witnesses [k, keep · 3] that are not the site's `own`
    [k, 3]."""
    if given.shape != (len(made), 3 * keep) or given.dtype != np.int64:
        return False
    each = given.reshape(len(made), keep, 3)
    proven = all(np.array_equal(_proofs(made, each[:, k, :1], key), each[:, k, 1:]) for k in range(keep))
    nonces = np.sort(np.hstack([each[:, :, 0], own[:, :1]]), axis=1)
    return bool(proven and (nonces[:, 1:] != nonces[:, :-1]).all())


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


def choose(tokens_by_site: Mapping[str, np.ndarray], keep: int,
           secret: bytes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Site → (which of its tokens [k] it must exclude, so that a person at more than `keep` sites stays at exactly
    `keep`; where these stand [k, keep], among all sites' tokens in the order of the sites' names)."""
    sites = sorted(tokens_by_site)
    everyone = np.concatenate([tokens_by_site[site] for site in sites])
    sizes = [len(tokens_by_site[site]) for site in sites]
    place = np.repeat(np.arange(len(sites)), sizes)
    order = sorting(everyone)  # sites stay in order within a person
    person = np.cumsum(np.append(True, ~_same_as_next(everyone[order]))[:len(order)]) - 1
    _check_distinct(sites, place[order], person)
    repeated = np.bincount(person, minlength=1)[person] > keep
    rows, who = order[repeated], np.unique(person[repeated], return_inverse=True)[1]
    stays = _chosen(everyone[rows], place[rows], person[repeated], sites, keep, secret)
    staying = rows[stays].reshape(-1, keep)  # persons are in order
    left_out, elsewhere = rows[~stays], staying[who[~stays]]
    begin = np.cumsum([0, *sizes])
    return {site: (left_out[mine] - begin[s], elsewhere[mine])
            for s, site in enumerate(sites) for mine in [place[left_out] == s]}


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
