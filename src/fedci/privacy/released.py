"""The cohorts of which a site has told anything, as keyed fingerprints in its own kit: two releases whose people
differ by one tell that one's numbers.

    released.npz   one sorted array of 64-bit fingerprints for each cohort      fingerprint = HMAC-SHA256(key, person)

A person is their ids where the study has any, else their row. A site refuses a cohort that is nearly, and not quite,
one it has told of.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from fedci.errors import DisclosureError, OutputError
from fedci.folder import whole_file

FILE = "released.npz"


def fingerprints(people: Iterable[bytes], key: bytes) -> np.ndarray:
    """[n] uint64, sorted."""
    made = b"".join(hmac.digest(key, person, "sha256")[:8] for person in people)
    return np.sort(np.frombuffer(made, "<u8"))


def difference(one: np.ndarray, two: np.ndarray) -> int:
    """How many people are in one cohort and not in the other."""
    return len(np.setxor1d(one, two))


class Releases:
    """The cohorts a site told of, in a folder of its own."""

    def __init__(self, folder: Path | str, key: bytes):
        self.path, self.key = Path(folder) / FILE, key

    def known(self) -> list[np.ndarray]:
        try:
            with np.load(self.path, allow_pickle=False) as file:
                return [file[name] for name in file.files]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, EOFError, BadZipFile):
            raise OutputError(f"'{self.path}', the memory of what was released, is damaged. Nothing is sent without "
                              f"it: bring it back from a backup, or ask for a new kit") from None

    def admit(self, site: str, people: Iterable[bytes], least: int) -> None:
        """Remember this cohort; DisclosureError where it is too near to an earlier one that is not the same."""
        cohort, known = fingerprints(people, self.key), self.known()
        apart = [difference(cohort, one) for one in known]
        if 0 in apart:
            return
        if apart and min(apart) < least:
            raise DisclosureError(
                f"site '{site}': the people differ from those of an earlier release by {min(apart)}, and the "
                f"difference of the two would tell about them; the policy asks for {least} (policy.min_difference). "
                f"The same people as before are allowed, or {least} people more or fewer")
        with whole_file(self.path) as file:
            np.savez(file, allow_pickle=False, **{str(k): one for k, one in enumerate([*known, cohort])})
