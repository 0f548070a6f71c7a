"""The cohorts of which a site has told anything, as keyed fingerprints in its own kit: two releases whose people
differ by one tell that one's numbers.

    released.npz   for each cohort two sorted arrays of 64-bit fingerprints,    fingerprint = HMAC-SHA256(key, person)
                   the untreated's and the treated's

A person is their ids where the study has any, else their row. A site refuses a cohort that is nearly, and not quite,
one it has told of; and one whose treated or untreated are, because the outcome's moments leave for each arm.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from fedci.errors import DisclosureError, OutputError
from fedci.files import whole_file

FILE = "released.npz"


def fingerprints(people: Sequence[bytes], key: bytes) -> np.ndarray:
    """[n] uint64, sorted."""
    made = b"".join(hmac.digest(key, person, "sha256")[:8] for person in people)
    return np.sort(np.frombuffer(made, "<u8"))


def difference(first: np.ndarray, second: np.ndarray) -> int:
    """How many people are in one cohort and not in the other."""
    return len(np.setxor1d(first, second))


class Cohort(NamedTuple):
    """Fingerprints of both arms."""

    untreated: np.ndarray
    treated: np.ndarray

    def apart(self, other: Cohort) -> tuple[int, int]:
        """(people in one and not in the other, the least of it that is not 0 among the arms)."""
        arms = [difference(own, others) for own, others in zip(self, other, strict=True)]
        return difference(np.concatenate(self), np.concatenate(other)), min(filter(None, arms), default=0)


class Releases:
    """The cohorts a site told of, in a folder of its own."""

    def __init__(self, folder: Path | str, key: bytes):
        self.path, self.key = Path(folder) / FILE, key

    def known(self) -> list[Cohort]:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                return [Cohort(file[f"{k}-0"], file[f"{k}-1"]) for k in range(len(file.files) // 2)]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, EOFError, BadZipFile, KeyError):
            raise OutputError(f"'{self.path}', the memory of what was released, is damaged. Nothing is sent without "
                              f"it: bring it back from a backup, or ask for a new kit") from None

    def admit(self, site: str, people: Sequence[bytes], w: np.ndarray, least: int, least_arm: int) -> None:
        """Remember this cohort; DisclosureError where it, or an arm of it, is too near to an earlier one that is not
        the same."""
        cohort, known = self._cohort(people, w), self.known()
        apart = [cohort.apart(earlier) for earlier in known]
        if (0, 0) in apart:
            return
        for everyone, arm in apart:
            if 0 < everyone < least:
                raise DisclosureError(
                    f"site '{site}': the people differ from those of an earlier release by {everyone}, and the "
                    f"difference of the two would tell about them; the policy asks for {least} "
                    f"(policy.min_difference). The same people as before are allowed, or {least} people more or fewer")
            if 0 < arm < least_arm:
                raise DisclosureError(
                    f"site '{site}': the treated, or the untreated, differ from those of an earlier release by {arm}, "
                    f"and the difference of the two would tell about them; the policy asks for {least_arm} people of "
                    f"an arm (policy.min_cell)")
        arms = {f"{k}-{arm}": prints for k, released in enumerate([*known, cohort])
                for arm, prints in enumerate(released)}
        with whole_file(self.path) as file:
            np.savez(file, allow_pickle=False, **arms)

    def _cohort(self, people: Sequence[bytes], w: np.ndarray) -> Cohort:
        arms = [np.flatnonzero(w == arm).tolist() for arm in (0, 1)]
        return Cohort(*(fingerprints([people[row] for row in rows], self.key) for rows in arms))
