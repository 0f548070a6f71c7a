"""What leaves real sites in a study with noise on its sums: bytes through doors, under masks, parsed for attacks.

    with met(planned(rows), rows) as parties: heard = overheard(parties)
    heard.numbers(colluding=("site-0",))        what is left when these sites tell theirs too

Each number is in model units and in sds of the noise that is owed (`sum_noise`), as `noised_sums.told` has it of
people: means Σx, Σy of each arm · squares · products, their upper half · of each site Σx, Σy of each arm.

Sums of effects are linear in each site's noised sums of its arms: of many draws they are solved for, site by site.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from people_sites import Parties

from fedci import Study
from fedci.coordinator.coordinator import run_study
from fedci.coordinator.talk import Talk, Total
from fedci.model.family import Ask
from fedci.model.shared import dictionary, noised_family, sum_noise
from fedci.model.shared.dictionary import Point
from fedci.model.shared.few_family import PRODUCTS
from fedci.protocol.requests import MEANS, SPREADS
from fedci.site import summing
from fedci.site.describing import Part

COVARIATES: dict[str, Any] = {"a": {}, "b": {}, "t": {}, "l": {}, "z": {"type": "binary"}}
DRAWS = 64
Sums = Mapping[str, np.ndarray]


class AtSite(NamedTuple):
    """The truth of a site, for scoring and for noise in its own sds."""

    rows: np.ndarray
    """[n, d + 1] x and y (with the noise on outcomes) in model units, not clipped."""
    arms: np.ndarray


class Heard(NamedTuple):
    """All that was told of a study with noise on its sums."""

    model: Any
    sites: tuple[str, ...]
    truth: dict[str, AtSite]
    totals: dict[str, tuple[Ask, Total]]
    """Step → what was asked of all, and what the coordinator opened."""
    own: dict[tuple[str, str], Sums]
    """(site, step) → its part, before masks: what a site that works with the coordinator tells beside."""
    scales: Any

    @property
    def unit(self) -> np.ndarray:
        """[d + 1] of columns and outcome, in the data's units."""
        return np.append(self.scales.x_sd, self.scales.y_sd)

    @property
    def centre(self) -> np.ndarray:
        return np.append(self.scales.x_mean, self.scales.y_mean)

    def left(self, step: str, colluding: Sequence[str]) -> dict[str, np.ndarray]:
        """The total, less what some sites told of themselves."""
        total = {name: np.array(part, float) for name, part in self.totals[step][1].sums.items()}
        for site in colluding:
            for name, part in self.own[site, step].items():
                total[name] = total[name] - np.asarray(part)
        return total

    def people(self, site: str) -> np.ndarray:
        """[2] of each arm."""
        return np.bincount(self.truth[site].arms.astype(int), minlength=2).astype(float)

    def honest(self, colluding: Sequence[str]) -> list[str]:
        return [site for site in self.sites if site not in colluding]

    def numbers(self, colluding: Sequence[str] = ()) -> np.ndarray:
        """[K] in sds of the noise that is owed."""
        return np.concatenate([self._columns(colluding), self._products(colluding), self._of_arms(colluding)])

    def _columns(self, colluding: Sequence[str]) -> np.ndarray:
        means, squares = self.left(MEANS, colluding), self.left(SPREADS, colluding)
        d = len(self.scales.x_mean)
        count = np.append(means["count"], means["y_count"])
        sums = (np.append(means["total"], means["y_total"]) - count * np.append(self.centre[:d], [self.centre[d]] * 2))
        sums = sums / np.append(self.unit[:d], [self.unit[d]] * 2)
        about = np.append(squares["square"], squares["y_square"]) / self.unit**2
        return np.concatenate([sums / owed(self.model, "means"), about / squares_owed(self.model)])

    def _products(self, colluding: Sequence[str]) -> np.ndarray:
        ask = self.totals[PRODUCTS][0]
        total, point = self.left(PRODUCTS, colluding), Point(np.asarray(ask.arrays["point"]))
        c = np.append(sum_noise.scale_of(self.model, point), 1.0)
        unit = float(dictionary.noise_level(self.model.unravel(jnp.asarray(point.vector))))
        width = len(c)
        whole = np.zeros((width, width))
        whole[np.triu_indices(width - 1)] = np.ravel(total["gram"])
        whole[:-1, -1], whole[-1, -1] = np.ravel(total["cross"]), np.ravel(total["square"])[0]
        return upper(whole * np.outer(c, c) * unit) / sum_noise.noise_of(self.model)

    def _of_arms(self, colluding: Sequence[str]) -> np.ndarray:
        found = solved_sums(self, colluding)
        return np.concatenate([found[site].sums.ravel() for site in found]) / owed(self.model, "effects")


def owed(model: Any, kind: str) -> float:
    """Sd of the noise on a sum that weighs everybody by 1."""
    return float(model.options.sum_noise / np.sqrt(sum_noise.SHARES[kind]))


def squares_owed(model: Any) -> float:
    return owed(model, "squares") * 2.0 * summing.FARTHEST


def upper(whole: np.ndarray) -> np.ndarray:
    """By the noise of each: √2 as large on the diagonal."""
    rows, columns = np.triu_indices(len(whole))
    return whole[rows, columns] / np.where(rows == columns, 2**0.5, 1.0)


class Solved(NamedTuple):
    sums: np.ndarray
    """[2, d + 1] Σx, Σy of each arm in model units, with the site's noise."""
    error: np.ndarray
    """What rounding leaves of them open."""


ROUNDING = 1e-14
"""Of sums of effects, relative."""


def solved_sums(heard: Heard, colluding: Sequence[str] = ()) -> dict[str, Solved]:
    """Of each honest site, as the sums of effects of many draws give them away: least squares of
    `noised_family.site_effects`, which is linear in them and weighs each site's by its own counts."""
    step = next(name for name in heard.totals if name.endswith("Effects"))
    matrix, known = effects_of_sums(heard, heard.totals[step][0], colluding)
    right = heard.left(step, colluding)["cate_mean"] / heard.scales.y_sd - known
    scale = np.linalg.norm(matrix, axis=0)
    left, sizes, back = np.linalg.svd(matrix / scale, full_matrices=False)
    found = back.T @ ((left.T @ right.ravel()) / sizes) / scale
    error = ROUNDING * np.abs(known).max() * np.linalg.norm(back / sizes[:, None], axis=0) / scale
    shape = len(heard.honest(colluding)), 2, -1
    pairs = zip(found.reshape(shape), error.reshape(shape), strict=True)
    return dict(zip(heard.honest(colluding), (Solved(*pair) for pair in pairs), strict=True))


def effects_of_sums(heard: Heard, ask: Ask, colluding: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """(A [3L, sites · 2 · (d + 1)], b [L, 3]): sums of effects of the honest sites are A S + b."""
    thetas, betas = (jnp.asarray(ask.arrays[name]) for name in ("thetas", "betas"))
    parts, known, nothing = [], 0.0, jnp.zeros((2, len(heard.unit)))
    for site in heard.honest(colluding):
        people = jnp.asarray(heard.people(site))

        def of(sums: Any, people: Any = people) -> Any:
            told = noised_family.ArmSums(sums[:, :-1], sums[:, -1], people, jnp.zeros(()))
            return noised_family.site_effects(heard.model, thetas, betas, told)[0]

        parts.append(np.asarray(jax.jacfwd(of)(nothing)).reshape(-1, nothing.size))
        known = known + np.asarray(of(nothing))
    return np.hstack(parts), known


# --- a study that `standard` lets through


def table(treated: int, untreated: int, seed: int, far: bool = True) -> pd.DataFrame:
    """Columns with normal, heavy and skewed tails, one of 0 and 1; somebody `far` out in all of them in each arm."""
    rng, n = np.random.default_rng((seed, 29)), treated + untreated
    w = np.repeat([0, 1], [untreated, treated])
    x = np.column_stack([rng.standard_normal((n, 2)), rng.standard_t(2, n), np.exp(rng.standard_normal(n)),
                         rng.random(n) < 0.3])
    y = 0.6 * x[:, 0] + 0.3 * np.clip(x[:, 2], -3, 3) + 0.5 * w + 0.5 * rng.standard_t(3, n)
    if far:
        x[[0, -1], :4], y[[0, -1]] = 10.0, 10.0
    return pd.DataFrame(x, columns=[*COVARIATES]).assign(w=w, y=y)


def tables(treated: int, untreated: int, sites: int = 3, seed: int = 0,
           more: tuple[int, int] = (5, 3), far: bool = True) -> dict[str, pd.DataFrame]:
    """No two of one size, but each larger than the last: else nobody could tell their sums apart."""
    return {f"site-{k}": table(treated + more[0] * k, untreated + more[1] * k, 10 * seed + k, far)
            for k in range(sites)}


def planned(sites: Sequence[str], **changes: Any) -> Study:
    given: dict[str, Any] = {"treatment": "w", "outcome": "y", "covariates": COVARIATES, "policy": "standard",
                             "preset": "few", "options": {"prediction": {"draws": DRAWS}}}
    return Study(**(given | {"sites": tuple(sites)} | changes))


@contextmanager
def recording(totals: dict[str, tuple[Ask, Total]], own: dict[tuple[str, str], Sums]) -> Iterator[None]:
    """While it lasts, every sum that a coordinator in this process opens is kept, and every part that a site masks."""
    total, masked = Talk.total, summing._masked

    def opened(talk: Talk, ask: Ask) -> Total:
        totals[ask.name] = ask, total(talk, ask)
        return totals[ask.name][1]

    def hidden(run: Any, sums: Any, request: Any, ask: Ask, part: Part, beside: Any) -> Any:
        own[request.site, ask.name] = part.sums
        return masked(run, sums, request, ask, part, beside)

    Talk.total, summing._masked = opened, hidden
    try:
        yield
    finally:
        Talk.total, summing._masked = total, masked


def overheard(parties: Parties) -> Heard:
    """A whole study. FedciError where the sites refuse it."""
    totals: dict[str, tuple[Ask, Total]] = {}
    own: dict[tuple[str, str], Sums] = {}
    with recording(totals, own):
        outcome = run_study(parties, parties.study)
    scales, truth = outcome.layout.scales, {}
    for name in parties.sites:
        table = parties.site(name).party.noisy
        rows = (np.column_stack([table.x, table.y]) - [*scales.x_mean, scales.y_mean]) / [*scales.x_sd, scales.y_sd]
        truth[name] = AtSite(rows, table.w)
    return Heard(outcome.layout.model, parties.sites, truth, totals, own, scales)
