"""What a site tells of its columns before the fit: which must stay, counts, means, spreads; all of it to be summed.

Under differential privacy the same numbers come from its noised moments (`site.noising`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedci.errors import DisclosureError
from fedci.model.family import Arrays
from fedci.protocol import stages, timing
from fedci.site.noising import SumNoise, digest_of_numbers, site_noise, sum_noise_of
from fedci.site.run import Party, Run, true_outcomes
from fedci.table import small_cells
from fedci.table.moments import Moments, SiteMoments, describe, round_digits
from fedci.table.table import Table
from fedci.table.values import told_of


class Part(NamedTuple):
    """A site's part of a sum."""

    sums: dict[str, np.ndarray]
    own: dict[str, np.ndarray] = {}
    """What the report says of each site, in the clear."""
    jitter: float | None = None
    """The one that made the sums finite, where it is not the model's own."""


def columns(party: Party, run: Run, arrays: Arrays) -> Part:
    """Which columns this site could not sum without telling of few people."""
    t, least = run.table, run.study.policy.min_cell
    if small_cells.is_small_outcome(true_outcomes(party, run), t.w, least):
        raise DisclosureError(f"site '{party.name}': fewer people of an arm than the policy's min_cell hold one of the "
                              f"outcome's two values, or any but its commonest. More people, or an outcome that is "
                              f"less rare, can be summed")
    flags = {"withheld": small_cells.withheld(t.x, t.w, least), "varies": small_cells.varies(t.x, least),
             "incomplete": np.isnan(t.x).any(0), "gaps_withheld": small_cells.gaps(t.x, t.w, least)}
    return Part({name: flag.astype(float) for name, flag in flags.items()})


def means(party: Party, run: Run, arrays: Arrays) -> Part:
    own = moments(party, run)
    stays = ~np.asarray(arrays["withheld"], bool)
    y_count = np.array([arm.count[0] for arm in own.y], float)
    totals = np.concatenate([own.x.count * own.x.values[0], y_count * np.array([arm.values[0, 0] for arm in own.y])])
    if noise := noise_on_sums(party, run):
        totals = noise.means(totals, np.append(_spreads_here(run), np.full(len(y_count), run.table.y.std())))
    x_total, y_total = np.split(totals, [len(stays)])
    return Part({"count": np.where(stays, own.x.count, 0.0), "total": np.where(stays, x_total, 0.0),
                 "y_count": y_count, "y_total": y_total,
                 "stages": stages.people_of(run.table.by_arm, run.contract.options.optimiser.first_rows)},
                {"people": np.array([own.rows, *y_count[1:]], float)})


def spreads(party: Party, run: Run, arrays: Arrays) -> Part:
    """Σ (v − c)² = n (variance + (mean − c)²) about the common centre."""
    own = moments(party, run)
    stays = ~np.asarray(arrays["withheld"], bool)
    if noise := noise_on_sums(party, run):
        t, centre = run.table, np.append(arrays["x_mean"], arrays["y_mean"])
        found = noise.squares(np.column_stack([t.x, t.y]), centre, np.append(_spreads_here(run), t.y.std()))
        return Part({"square": np.where(stays, found[:-1], 0.0), "y_square": found[-1]})
    return Part({"square": np.where(stays, _about(own.x, arrays["x_mean"]), 0.0),
                 "y_square": sum((_about(arm, arrays["y_mean"])[0] for arm in own.y), np.zeros(()))})


def means_and_squares(party: Party, run: Run, arrays: Arrays) -> Part:
    """Both at once: squares about 0, which needs no mean of all sites."""
    told, nowhere = means(party, run, arrays), np.zeros(len(arrays["withheld"]))
    squares = spreads(party, run, {**arrays, "x_mean": nowhere, "y_mean": np.zeros(())})
    return told._replace(sums=told.sums | squares.sums)


def noise_on_sums(party: Party, run: Run) -> SumNoise | None:
    remembers = None if party.accountant is None else party.accountant.asked_once
    return sum_noise_of(run.study, run.contract.noises_sums, run.contract.sites, run.table, party.noise_secret,
                        remembers)


def _spreads_here(run: Run) -> np.ndarray:
    """[d] sds of the columns at the site."""
    return np.sqrt(describe(run.table.x).values[1])


def times(party: Party, run: Run, arrays: Arrays) -> Part:
    """When events were, by parts of time that the study alone gives."""
    t, study, least = run.table, run.study, run.study.policy.min_cell
    if least and party.accountant is not None:
        made = [party.whole.origin(name) for name in study.outcome_columns]
        with told_of(f"site '{party.name}'"):
            party.accountant.counted_once(", ".join(one.name for one in made), digest_of_numbers(timing.grid(study))
                                          + "".join(one.how for one in made))
    return Part(timing.counted(study, t.w, t.y, _time(t), least))


def exposures(party: Party, run: Run, arrays: Arrays) -> Part:
    t = run.table
    return Part({"exposure": np.array([_time(t)[t.w == arm].sum() for arm in range(t.arms)])})


def _time(table: Table) -> np.ndarray:
    if table.time is None:
        raise AssertionError("the table of such a study has its times")
    return table.time


def description(party: Party, run: Run, arrays: Arrays) -> Part:
    """The site's four moments in model units and in its own place, for a model that compares sites by them: what all
    sites see of each other, to the policy's digits."""
    own, digits = moments(party, run), run.study.policy.moment_digits
    x_mean, x_sd, y_mean, y_sd = (np.asarray(arrays[name]) for name in ("x_mean", "x_sd", "y_mean", "y_sd"))
    blocks: list[tuple[Moments, np.ndarray, np.ndarray]] = [
        (own.y[0], y_mean, y_sd), (own.y[1], y_mean, y_sd), (own.x, x_mean, x_sd), (own.w, np.zeros(()), np.ones(()))]
    values = np.hstack([_in_units(part, centre, sd) for part, centre, sd in blocks])
    sites, place = int(arrays["slots"]), run.contract.sites.index(party.name)
    slots, counts = np.zeros((sites, *values.shape)), np.zeros((sites, values.shape[1]))
    slots[place] = round_digits(values, digits)
    counts[place] = np.concatenate([part.count for part, _, _ in blocks])
    return Part({"moments": slots, "counts": counts})


def _in_units(part: Moments, centre: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """[4, c]; a column that stays at the sites (its sd is infinite) has no moments."""
    mean, variance, skewness, kurtosis = part.values
    stays = np.isfinite(sd) & np.ones_like(mean, bool)
    return np.where(stays, np.stack([(mean - centre) / sd, variance / np.square(sd), skewness, kurtosis]), 0.0)


def _about(part: Moments, centre: np.ndarray) -> np.ndarray:
    return part.count * (part.values[1] + (part.values[0] - centre) ** 2)


def moments(party: Party, run: Run) -> SiteMoments:
    """Of all columns, exactly, or with the noise of differential privacy. Where too few values are missing to say how
    many, all people count as known."""
    t, policy = run.table, run.study.policy
    noise = site_noise(run.study, run.contract.options, t, party.noise_secret)
    if noise is not None and policy.noises("moments"):
        return noise.moments(t)
    x = describe(t.x)
    x = x._replace(count=np.where(small_cells.gaps(t.x, t.w, policy.min_cell), t.rows, x.count))
    arms = tuple(describe(t.y[t.w == arm][:, None]) for arm in range(t.arms))
    return SiteMoments(x, np.isnan(t.x).any(0), arms, describe(t.w[:, None]))
