"""The law of what is missing by itself: how often intervals of least squares on its completed copies hold the truth.

`python -m fedci.benchmark.cost.gaps_alone [REPLICATIONS]`: the hospitals of `cost.gaps`; in place of the model's fit a
regression of the outcome on arm, covariates and sites, in each copy, joined by Rubin's rules,

    variance = mean of the copies' + (1 + 1/K) variance between them

so that hundreds of replications take seconds, and what is seen is the law's alone.
"""

from __future__ import annotations

import sys

import numpy as np

from fedci.benchmark.cost.gaps import EFFECT, KINDS, SITES, hospital
from fedci.model import completion
from fedci.model.completion import LAST, MIXING, Completion, Gaps, Law, Sums

WITHIN = 1.96
"""Sds of an interval of 95%."""


def effect(x: np.ndarray, w: np.ndarray, y: np.ndarray, site: np.ndarray) -> tuple[float, float]:
    """(estimate, variance) of the arm's coefficient."""
    design = np.column_stack([w, x, site[:, None] == np.arange(SITES)])
    coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
    left = y - design @ coefficients
    return float(coefficients[0]), float(left @ left / (len(y) - design.shape[1]) * np.linalg.inv(
        design.T @ design)[0, 0])


def copies(x: np.ndarray, w: np.ndarray, y: np.ndarray, site: np.ndarray, binary: bool, seed: int) -> np.ndarray:
    """[K, n, 2] of x [n, 2], whose second column lacks values, as sites complete it together."""
    mean, sd = np.nanmean(x, 0), np.nanstd(x, 0)
    ends = [np.where([False, binary], (value - mean) / sd, np.nan) for value in (0.0, 1.0)]
    gaps = Gaps(lacking=np.array([1]), low=ends[0], high=ends[1], group=np.arange(2), told=1, sites=SITES)
    v, people = np.column_stack([(x - mean) / sd, (y - y.mean()) / y.std()]), np.bincount(w).astype(float)
    law, first = completion.first_law(gaps), completion.steps(float(np.isnan(x[:, 1]).mean()))
    for step in range(first + MIXING):
        total = _completed(gaps, law, v, w, site, seed, step)[1]
        law = completion.drawn_laws(gaps, law, total, people, 1 if step < first - 1 else completion.COPIES, seed, step)
    return _completed(gaps, law, v, w, site, seed, LAST)[0] * sd + mean


def _completed(gaps: Gaps, law: Law, v: np.ndarray, w: np.ndarray, site: np.ndarray, seed: int,
               step: int) -> tuple[np.ndarray, Sums]:
    """(copies, sums over all sites)."""
    known, made, told = Completion(gaps, law, float(w.mean()), seed), [], []
    for number in range(SITES):
        own, arms = v[site == number], w[site == number]
        levels = known.levels_of(f"s{number}", own, arms, step)
        made.append(known.people(own, arms, completion.keys_of(np.column_stack([own, arms])), levels, step))
        told.append(completion.sums_of(gaps, made[-1], own, arms, levels))
    return np.concatenate(made, 1), Sums(*(np.sum(parts, 0) for parts in zip(*told, strict=True)))


def measured(kind: str, replication: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """((estimate, variance) with nothing missing, the same of what is drawn)."""
    rng = np.random.default_rng((replication, KINDS.index(kind), 77))
    whole, lacking = zip(*(hospital(rng, kind, number) for number in range(SITES)), strict=True)
    site = np.repeat(np.arange(SITES), [len(table) for table in whole])
    x, seen = (np.concatenate([table[["seen", "hidden"]].to_numpy() for table in tables])
               for tables in (whole, lacking))
    w, y = (np.concatenate([table[name].to_numpy() for table in whole]) for name in ("w", "y"))
    each = np.array([effect(one, w, y, site) for one in copies(seen, w, y, site, kind == "0 or 1", replication)])
    variance = each[:, 1].mean() + (1.0 + 1.0 / len(each)) * each[:, 0].var(ddof=1)
    return effect(x, w, y, site), (float(each[:, 0].mean()), float(variance))


def main(replications: int = 200) -> None:
    print("| what is missing | of what | coverage | bias | width |\n|---|---|---:|---:|---:|")
    for kind in KINDS:
        found = np.array([measured(kind, replication) for replication in range(replications)])
        for way, cells in zip(("nothing is missing", "draws"), np.moveaxis(found, 1, 0), strict=True):
            sd = np.sqrt(cells[:, 1])
            inside = np.mean(np.abs(cells[:, 0] - EFFECT) <= WITHIN * sd)
            print(f"| {kind} | {way} | {inside:.3f} | {np.mean(cells[:, 0]) - EFFECT:+.3f} | "
                  f"{np.mean(2.0 * WITHIN * sd):.2f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
