"""A cohort as a site remembers it, by keyed digests; and whether sums over it and others single somebody out.

    h > 1/n in the span of all that was told (`privacy.leverage`): refused
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedci.errors import DisclosureError
from fedci.privacy import leverage
from fedci.site.store import Line
from fedci.study.policy import Policy

PRINT = 8
"""Bytes of a digest: 64 bits, by which two of 10⁷ people are one in a try of a hundred thousand."""


class Cohort(NamedTuple):
    """A cohort in the store."""

    prints: Mapping[str, np.ndarray]
    """Way of knowing people → [n] uint64, in the order of the first way's."""
    arm: np.ndarray
    """[n] uint8: 1 treated, 0 not; of more arms each its own number."""

    @property
    def whom(self) -> tuple[str, bytes]:
        """Of which people it is, in whichever arms: by the first way, in whose order they stand."""
        way = min(self.prints)
        return way, hashlib.sha256(self.prints[way].tobytes()).digest()

    def meets(self, other: Cohort, unknown: bool) -> bool:
        """Whether somebody is in both; `unknown`: what is taken to be where no way of knowing people is common to
        them."""
        ways = self.prints.keys() & other.prints.keys()
        return any(bool(np.isin(self.prints[way], other.prints[way]).any()) for way in ways) if ways else unknown

    def equals(self, other: Cohort) -> bool:
        return (self.prints.keys() == other.prints.keys() and np.array_equal(self.arm, other.arm)
                and all(np.array_equal(own, other.prints[way]) for way, own in self.prints.items()))


def fingerprints(people: Sequence[bytes], key: bytes, way: str = "") -> np.ndarray:
    """[n] uint64: HMAC-SHA256 of way and person, in their order; a person who stands twice is numbered."""
    about, seen = way.encode() + bytes(1), Counter[bytes]()
    made = []
    for person in people:
        made.append(hmac.digest(key, about + seen[person].to_bytes(4, "big") + person, "sha256")[:PRINT])
        seen[person] += 1
    return np.frombuffer(b"".join(made), "<u8")


def written(arm: np.ndarray) -> dict[str, str]:
    """A bit for each person; a byte where there are more than two arms."""
    name, packed = ("arms", np.packbits(arm)) if arm.max(initial=0) < 2 else ("levels", arm)
    return {name: base64.b64encode(packed.tobytes()).decode()}


def read_cohort(line: Line) -> Cohort:
    prints = {way: np.frombuffer(base64.b64decode(data), "<u8") for way, data in line["prints"].items()}
    if "levels" in line:
        return Cohort(prints, np.frombuffer(base64.b64decode(line["levels"]), np.uint8))
    arms = np.frombuffer(base64.b64decode(line["arms"]), np.uint8)
    return Cohort(prints, np.unpackbits(arms, count=line["count"]))


def _by_arm(cohort: Cohort, people: np.ndarray) -> list[np.ndarray]:
    return [people[cohort.arm == arm] for arm in range(max(int(cohort.arm.max(initial=0)) + 1, 2))]


def check_span(site: str, cohort: Cohort, earlier: Sequence[Cohort], policy: Policy) -> None:
    """DisclosureError where sums over this cohort and the earlier ones would tell of few, in either way of knowing
    people."""
    checked: str | None = None
    for way in sorted(cohort.prints):
        known = [*(other for other in earlier if way in other.prints), cohort]
        if checked and _see_the_same(known, checked, way):
            continue
        people = _numbered([group.prints[way] for group in known])
        arms = [part for group, own in zip(known, people, strict=True) for part in _by_arm(group, own)]
        _check_leverage(site, people, 1, policy.min_difference, "min_difference")
        new = len(_by_arm(cohort, people[-1]))
        _check_leverage(site, arms, new, policy.min_cell, "min_cell")
        checked = way


def _numbered(cohorts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same cohorts with numbers from 0 on for digests."""
    _, where = np.unique(np.concatenate(cohorts), return_inverse=True)
    return np.split(where, np.cumsum([len(cohort) for cohort in cohorts])[:-1])


def _see_the_same(cohorts: Sequence[Cohort], first_way: str, second_way: str) -> bool:
    """Whether both ways tell the same people apart: usually, for ids and rows that nobody corrected."""
    if not all(first_way in cohort.prints for cohort in cohorts):
        return False
    first, where = np.unique(np.concatenate([cohort.prints[first_way] for cohort in cohorts]), return_inverse=True)
    second = np.concatenate([cohort.prints[second_way] for cohort in cohorts])
    image = np.empty(len(first), second.dtype)
    image[where] = second
    return bool(np.array_equal(image[where], second)) and len(np.unique(image)) == len(image)


def _check_leverage(site: str, cohorts: Sequence[np.ndarray], new: int, least: int, rule: str) -> None:
    raised = _raised(site, *leverage.classes(cohorts), new, least) if least else None
    if raised is not None:
        raise _singled_out(site, raised, least, rule)


def _raised(site: str, patterns: np.ndarray, sizes: np.ndarray, new: int, least: int) -> leverage.Raised | None:
    try:
        return leverage.raised(patterns, sizes, new, least)
    except leverage.TooEntangled as problem:
        raise DisclosureError(
            f"site '{site}': whether this cohort and those told before single somebody out cannot be decided "
            f"({problem}), and what cannot be decided is refused. Ask about one of the cohorts that were told of"
        ) from None


def _singled_out(site: str, raised: leverage.Raised, least: int, rule: str) -> DisclosureError:
    arms = "the treated, or the untreated (the people of an arm), of this cohort"
    whom = arms if rule == "min_cell" else "this cohort"
    return DisclosureError(
        f"site '{site}': sums over {whom}, together with those told before, would tell of {raised.people} people as "
        f"much as a mean over {raised.worth:.3g} does; the policy asks for {least} (policy.{rule}). The same people as "
        f"in an earlier release are allowed, and so are {least} or more who join or leave together; a few corrected "
        f"rows are few people too")


def per_person(cohorts: Sequence[Cohort], told_by_cohort: np.ndarray) -> np.ndarray:
    """[people] numbers told in the runs each was in; a person is the ids where a cohort has them, else the row."""
    totals = []
    by_way: dict[str, list[int]] = {}
    for number, cohort in enumerate(cohorts):
        by_way.setdefault(min(cohort.prints), []).append(number)
    for way, numbers in by_way.items():
        prints = [cohorts[number].prints[way] for number in numbers]
        _, where = np.unique(np.concatenate(prints), return_inverse=True)
        totals.append(np.bincount(where, weights=np.repeat(told_by_cohort[numbers], list(map(len, prints)))))
    return np.concatenate(totals).astype(np.int64) if totals else np.zeros(0, np.int64)
