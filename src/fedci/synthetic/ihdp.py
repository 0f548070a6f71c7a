"""IHDP: a real trial's 747 children with simulated outcomes (NPCI, response surface B), ten replicates.

The files are public but not ours to ship: `ihdp_npci_1.csv` … `_10.csv`, no header, columns
treatment, y_factual, y_cfactual, mu0, mu1, x1 … x25 (x14 is coded 1, 2; x19-x25 are seven of the trial's eight sites);
`ihdp_missing_npci_1.csv` … `_10.csv` have four columns more, 1 where x1 … x4 were observed.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedci.errors import SourceError
from fedci.synthetic.datasets import SEED, Records, Split

ROWS, PART = 747, 83
CAUSALRFF = 50, 100, 99
"""Of each third, to fit, test and validate on: the cut of CausalRFF (arXiv 2301.00346)."""
CAUSALFI = 80, 24, 20
"""Of each of six sources of 124, to fit and to test on, and unused: the cut of CausalFI (arXiv 2308.13047)."""
COVARIATES = slice(5, 30)
SITE_COLUMNS = slice(18, 25)
VARIABLE, MISSING_VARIABLE = "FEDCI_IHDP", "FEDCI_IHDP_MISSING"
KEY = 3


class Files(NamedTuple):
    """Ten replicates in a folder that a user names."""

    name: str
    columns: int
    origin: str
    option: str
    variable: str

    def where(self) -> str:
        return (f"Put {self.name.format(1)} … {self.name.format(10)} ({self.origin}) into a folder and name it with "
                f"{self.option} or in {self.variable}.")


WHOLE = Files("ihdp_npci_{}.csv", 30, "public: the datasets of the CEVAE repository", "--ihdp", VARIABLE)
MISSING = Files("ihdp_missing_npci_{}.csv", 34, "the data of CausalFI, arXiv 2308.13047", "--ihdp-missing",
                MISSING_VARIABLE)


def records(replication: int, folder: str | Path | None = None) -> Records:
    """Replicate `replication` (0 … 9) in file order."""
    return _records(_columns(WHOLE, replication, folder))


def incomplete_records(replication: int, folder: str | Path | None = None) -> Records:
    """The same children; x1 … x4 are NaN where they were not observed: of a replicate's values, 0.3% (the
    ninth) to 93% (the third)."""
    a = _columns(MISSING, replication, folder)
    people, observed = _records(a), a[:, COVARIATES.stop:] == 1
    people.x[:, :observed.shape[1]][~observed] = np.nan
    return people


def _records(a: np.ndarray) -> Records:
    w, y, other, mu0, mu1, x = a[:, 0].astype(int), a[:, 1], a[:, 2], a[:, 3], a[:, 4], a[:, COVARIATES].copy()
    x[:, 13] -= 1
    return Records(x=x, w=w, y=y, y0=np.where(w == 1, other, y), y1=np.where(w == 1, y, other), mu0=mu0, mu1=mu1)


def _columns(files: Files, replication: int, folder: str | Path | None) -> np.ndarray:
    """[747, columns] of a replicate's file."""
    path = _folder(files, folder) / files.name.format(replication + 1)
    try:
        a = np.loadtxt(path, delimiter=",")
    except (OSError, ValueError):
        raise SourceError(f"'{path}' cannot be read as an IHDP replicate. {files.where()}") from None
    if a.shape != (ROWS, files.columns):
        raise SourceError(f"'{path}' has shape {a.shape}, an IHDP replicate has {(ROWS, files.columns)}. "
                          f"{files.where()}")
    return a


def _folder(files: Files, folder: str | Path | None) -> Path:
    chosen = folder or os.environ.get(files.variable)
    if not chosen:
        raise SourceError(f"IHDP needs its files. {files.where()}")
    return Path(chosen)


def thirds(replication: int, folder: str | Path | None = None, shuffled: bool = False, seed: int = SEED) -> list[Split]:
    """Three sources of 249 children, 83 each to fit, test, validate on: contiguous as the authors did, or shuffled."""
    people = records(replication, folder)
    if shuffled:
        order = np.random.default_rng(np.random.SeedSequence((seed, KEY, 1, replication))).permutation(ROWS)
        people = people.take(order)
    return _contiguous(people, sources=3, sizes=(PART, PART, PART))


def causalrff(replication: int, folder: str | Path | None = None) -> list[Split]:
    """Three sources of 249 children in file order: 50 to fit on, 100 to test on, 99 to validate."""
    return _contiguous(records(replication, folder), sources=3, sizes=CAUSALRFF)


def incomplete(replication: int, folder: str | Path | None = None) -> list[Split]:
    """Six sources of 124 children in file order with missing values: 80 to fit on, 24 to test on, 20 unused."""
    return _contiguous(incomplete_records(replication, folder), sources=6, sizes=CAUSALFI)


def _contiguous(people: Records, sources: int, sizes: tuple[int, int, int]) -> list[Split]:
    """Consecutive blocks of Σ sizes children, each cut in consecutive parts."""
    ends = np.cumsum((0, *sizes))
    starts = np.arange(sources) * ends[-1]
    return [Split(*(people.take(slice(start + a, start + b)) for a, b in pairwise(ends))) for start in starts]


def trial_sites(replication: int, folder: str | Path | None = None, seed: int = SEED) -> list[Split]:
    """The trial's eight real sites (55 to 118 children, 2 to 38 treated), two thirds of each arm to fit, one to test.

    The site columns are left out of x: they are constant within a site.
    """
    people = records(replication, folder)
    flags = people.x[:, SITE_COLUMNS]
    site = np.where(flags.any(1), flags.argmax(1) + 1, 0)
    x = np.delete(people.x, np.arange(25)[SITE_COLUMNS], axis=1)
    people = Records(x=x, w=people.w, y=people.y, y0=people.y0, y1=people.y1, mu0=people.mu0, mu1=people.mu1)
    rng = np.random.default_rng(np.random.SeedSequence((seed, KEY, 2, replication)))
    return [_two_thirds(people.take(np.flatnonzero(site == s)), rng) for s in range(8)]


def _two_thirds(people: Records, rng: np.random.Generator) -> Split:
    """Train and test rows, a third of each arm in test (none of an arm with fewer than three)."""
    test = np.zeros(len(people), bool)
    for arm in (0, 1):
        rows = rng.permutation(np.flatnonzero(people.w == arm))
        test[rows[:len(rows) // 3]] = True
    nobody = np.zeros(0, int)
    return Split(people.take(np.flatnonzero(~test)), people.take(np.flatnonzero(test)), people.take(nobody))
