"""The priors of θ in the model `shared`: one table, a row for each part of θ, with the reason of its numbers.

All is on the standardised scale: sds are in standard deviations of the outcome, x has spread 1; of outcomes that are 0
and 1, on the scale of log odds, where the outcome's own noise has sd π/√3 = 1.8; of counts, of logs of rates. A
*root* is a part of three numbers, (log sd of b, own part of log sd e/sd b, own part of ρ), where the function is b
without treatment and ρb + e with it: its 2 × 2 matrix is `basis.root`; of more arms ρb + e_a in each, A × A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import jax
import numpy as np

from fedci.model import kernels
from fedci.model.family import Theta
from fedci.study.options import SharedOptions

Value = float | tuple[float, float] | tuple[float, float, float] | Mapping[str, float]
"""Of every entry; or of the two or three on the last axis (of more entries the last of them); or of each kind of k's
scales, by its name."""
Law = Literal["Gaussian", "Student's t"]


@dataclass(frozen=True, kw_only=True)
class Prior:
    """Independent entries, each with this law around `mean`."""

    letter: str
    shape: tuple[str | int, ...]
    """Of d covariates, K directions and A arms; 'k': as many as the covariance k has scales."""
    mean: Value
    """Of k's scales: away from where k starts."""
    sd: Value
    """Of Student's t its scale."""
    reason: str
    law: Law = "Gaussian"
    """Student's t has `tails` degrees of freedom; without that option it is Gaussian."""
    start: Value | None = None
    """Of q's mean, where it is not the prior's."""
    ridge: Value | None = None
    """In the ridge regression that starts the directions, where it is not the prior's mean."""
    option: str | None = None
    """The option without which θ has no such part."""
    binary: Value | None = None
    """The mean where outcomes are 0 and 1 and the scale is that of log odds, if it is another."""
    rate: Value | None = None
    """The same of counts, on the scale of the log of a rate."""
    only: str | None = None
    """The type of outcome without which θ has no such part."""
    fixed: bool = False
    """Whether the start sets it, and the fit leaves it there."""
    many: bool = False
    """Whether θ has it where there are more than two arms alone."""


OWN = "the block's own part of both is small, so that blocks learn from each other how simple the effect is"
TABLE: dict[str, Prior] = {
    "directions": Prior(
        letter="a", shape=("d", "K"), mean=0.0, sd=1.0, law="Student's t",
        reason="heavy tails, so that few covariates can carry a direction; with the factor 1.5/√d in A, t = xA has a "
               "spread of about 1.5 where entries are of size 1, and so reaches the outermost knots"),
    "direction_scale": Prior(
        letter="log τ", shape=("K",), mean=0.0, sd=0.5,
        reason="the data choose the spread of t; a direction whose τ goes to 0 is switched off"),
    "direction_common": Prior(
        letter="m", shape=("K",), mean=0.0, sd=1.0, option="common",
        reason="covariates that are coded so that more is worse often have coefficients that share a mean"),
    "effect": Prior(
        letter="η, log sd e/sd b", shape=(), mean=-1.0, sd=1.0,
        reason="the effect differs between people less than the outcome does: by e⁻¹ = 0.37 of it, a factor e either "
               "way; common to all blocks"),
    "alike": Prior(
        letter="ρ₀", shape=(), mean=1.0, sd=0.2, law="Student's t",
        reason="with ρ = 1 treatment leaves the shape of the outcome as it is, and few data are no reason to doubt it; "
               "effects that grow with the outcome are ρ ≠ 1, and the tails let data say so; common to all blocks"),
    "together": Prior(
        letter="log κ/(1 − κ)", shape=(), mean=0.0, sd=1.0, many=True,
        reason="half of what an arm's effect varies by is the other arms' too, from a quarter to three quarters two "
               "times in three; common to all blocks, and to the sites' own functions"),
    "hinges": Prior(
        letter="roots of the directions' blocks", shape=("K", 3), mean=(-0.3, 0.0, 0.0), sd=(1.0, 1.0, 0.7),
        start=(-0.5, 0.5, 0.0), binary=(0.3, 0.0, 0.0),
        reason="a bend may carry most of the outcome or next to nothing (e^−0.3 = 0.74, a factor e either way), and "
               "that of one arm only"),
    "linear": Prior(
        letter="root of the lines", shape=(3,), mean=(-1.0, 0.0, 0.0), sd=(1.0, 0.7, 0.1), start=(-0.3, 0.0, 0.0),
        ridge=(-1.0, 1.0, -0.5), binary=(0.0, 0.0, 0.0),
        reason=f"x/√d has length 1, so e^−1 = 0.37 is the lines' own sd at a typical person, a factor e either way; "
               f"{OWN}"),
    "common": Prior(
        letter="root of the common slope", shape=(3,), mean=(-1.0, 0.0, 0.0), sd=(1.0, 0.7, 0.1), option="common",
        ridge=(-6.0, 0.0, 0.0), binary=(0.0, 0.0, 0.0),
        reason="as the lines; the ridge regression keeps it out (sd e⁻⁶), or it would take the part that all "
               "coefficients share from the directions"),
    "between_arms": Prior(
        letter="γ", shape=("d", "A - 1"), mean=0.0, sd=1.0, option="between_arms", fixed=True,
        reason="not learnt: the regression of arms on covariates that the start's sums give"),
    "confounding": Prior(
        letter="log s", shape=(), mean=0.0, sd=1.0, option="between_arms", binary=1.0,
        reason="what confounding makes of the difference between people who would all be treated and people who would "
               "never be: as much as one sd of the outcome, a factor e either way"),
    "pooled": Prior(
        letter="log s_p, s_t, s_m of b", shape=(3,), mean=-1.0, sd=1.0, option="landmarks", ridge=-6.0, binary=-0.3,
        reason="as the lines: each may carry a good part of the outcome, or nothing"),
    "pooled_effect": Prior(
        letter="own part of log sd e/sd b of each", shape=(3,), mean=0.0, sd=0.7, option="landmarks", reason=OWN),
    "pooled_alike": Prior(
        letter="own part of ρ", shape=(), mean=0.0, sd=0.1, option="landmarks", reason=OWN),
    "relevance": Prior(
        letter="log r", shape=("d",), mean=-1.0, sd=1.0, option="landmarks",
        reason="most covariates matter little for thresholds: λ = e^−1 is one cut in three along a covariate's whole "
               "range"),
    "relevance_effect": Prior(
        letter="log r of e less that of b", shape=("d",), mean=0.0, sd=0.7, option="landmarks",
        reason="what changes the effect need not be what changes the outcome: a factor 2 either way"),
    "steepness": Prior(
        letter="log g", shape=(), mean=0.0, sd=0.7, option="landmarks",
        reason="how many cuts interact, for all covariates together"),
    "phi": Prior(
        letter="Φ^{1/2}, in units of the noise", shape=(3,), mean=(-0.2, -0.3, 0.0), sd=(0.35, 0.4, 0.5),
        ridge=(-0.2, -6.0, 0.0),
        binary=(-0.7, -0.7, 0.0), rate=(-1.0, -0.7, 0.0),
        reason="a function too rough to learn from the rows there are looks like noise to the evidence, so only a "
               "prior can say how much of the noise may be function: narrow. Sites' own effects are not tied to η: a "
               "shared effect may be simple where those of the sites are not"),
    "kernel": Prior(
        letter="log length-scale and log scales of k", shape=("k",), mean=0.0,
        sd=MappingProxyType({"log_length": 0.6, "log_scale": 1.2}),
        reason="around where k starts: the length-scale √d, because the typical distance of standardised inputs "
               "grows like that, and scales of 1, because Φ carries the size. Those of levels and slopes are wide: "
               "sites that are alike in these must not make the rest of f^s small"),
    "noise": Prior(
        letter="log sd of ε; half the difference of the arms' log sds", shape=("A",), mean=(-1.5, 0.0), sd=(1.2, 0.3),
        start=(-1.0, 0.0), ridge=(-1.0, 0.0), only="numeric",
        reason="e^−1.5 = 0.22 of the outcome's sd, a factor 3.3 either way: wide; the arms' noise within a factor 1.8 "
               "of each other, two times in three"),
    "baseline": Prior(
        letter="root of the baseline", shape=(3,), mean=(0.0, -0.5, 0.0), sd=(0.7, 0.7, 0.1), only="survival",
        reason="log hazards change over the intervals by a factor e, either way; treatment may change by how much they "
               "do nearly as freely (e^−0.5 = 0.6 of it), so that hazards cross where data say so: not tied to η"),
    "dispersion": Prior(
        letter="log r", shape=(), mean=1.5, sd=1.5, only="count",
        reason="the size of the negative binomial, its variance being μ + μ²/r: from r = 1, as wide as it is large, to "
               "r = 20, all but Poisson"),
}


def table(options: SharedOptions, outcome: str = "numeric", arms: int = 2) -> dict[str, Prior]:
    """The rows of the parts that θ has with these options, for this type of outcome and so many arms."""
    rows = {part: prior for part, prior in TABLE.items()
            if (prior.option is None or getattr(options, prior.option)) and prior.only in (None, outcome)
            and (arms > 2 or not prior.many)}
    if outcome == "numeric":
        return rows
    return {part: _moved(prior, prior.rate if outcome == "count" else prior.binary) for part, prior in rows.items()}


def _moved(prior: Prior, mean: Value | None) -> Prior:
    """What starts elsewhere than at the mean keeps its distance."""
    if mean is None:
        return prior
    moved = np.asarray(np.subtract(np.asarray(mean), np.asarray(prior.mean)))
    return replace(prior, mean=mean, start=_plus(prior.start, moved), ridge=_plus(prior.ridge, moved))


def _plus(value: Value | None, moved: np.ndarray) -> Any:
    if value is None:
        return None
    there = np.asarray(value) + moved
    return tuple(there.tolist()) if there.ndim else float(there)


def means(options: SharedOptions, d: int, outcome: str = "numeric", arms: int = 2) -> Theta:
    """θ at its prior means."""
    return _around(options, d, outcome, arms, lambda prior: prior.mean)


def starts(options: SharedOptions, d: int, outcome: str = "numeric", arms: int = 2) -> Theta:
    """θ where q's mean starts, but for the directions, which a ridge regression gives."""
    return _around(options, d, outcome, arms, lambda prior: prior.mean if prior.start is None else prior.start)


def ridge(options: SharedOptions, d: int, outcome: str = "numeric", arms: int = 2) -> Theta:
    """θ for that regression: with A = 0, the prior mean, hinges are constant and the lines alone fit the outcome. A
    site's own function is a level there, the same in all arms: it would take what few people's lines tell, and arms."""
    theta = _around(options, d, outcome, arms, lambda prior: prior.mean if prior.ridge is None else prior.ridge)
    return theta | {"kernel": kernels.level_of(kernels.build(options.kernel), theta["kernel"])}


def sds(options: SharedOptions, d: int, outcome: str = "numeric", arms: int = 2) -> Theta:
    return _filled(options, d, outcome, arms, lambda prior: prior.sd)


def heavy(options: SharedOptions, d: int, outcome: str = "numeric", arms: int = 2) -> Theta:
    """1 for an entry with Student's t, 0 for a Gaussian one."""
    tailed = options.tails is not None
    return _filled(options, d, outcome, arms, lambda prior: float(prior.law == "Student's t" and tailed))


def fixed(options: SharedOptions, d: int, outcome: str = "numeric", arms: int = 2) -> Theta:
    """1 for an entry that the start sets and the fit leaves."""
    return _filled(options, d, outcome, arms, lambda prior: float(prior.fixed))


def _around(options: SharedOptions, d: int, outcome: str, arms: int, column: Callable[[Prior], Value]) -> Theta:
    return jax.tree.map(np.add, _centres(options, d, outcome, arms), _filled(options, d, outcome, arms, column))


def _filled(options: SharedOptions, d: int, outcome: str, arms: int, column: Callable[[Prior], Value]) -> Theta:
    """θ with every entry from one column of the table."""
    centres = _centres(options, d, outcome, arms)
    return {part: _with(column(prior), centres[part]) for part, prior in table(options, outcome, arms).items()}


def _with(value: Value, leaves: Theta | np.ndarray) -> Any:
    """Every leaf filled with the value, or with that of its own name."""
    def filled(path: tuple[jax.tree_util.DictKey, ...], leaf: np.ndarray) -> np.ndarray:
        own = value[path[-1].key] if isinstance(value, Mapping) else value
        if isinstance(own, tuple) and len(own) < leaf.shape[-1]:
            own = (*own, *[own[-1]] * (leaf.shape[-1] - len(own)))
        return np.broadcast_to(own, leaf.shape).copy()

    return jax.tree_util.tree_map_with_path(filled, leaves)


def _centres(options: SharedOptions, d: int, outcome: str, arms: int) -> Theta:
    """What means are counted from: 0, and for k's scales where they start."""
    with jax.ensure_compile_time_eval():  # may be asked for first while something is traced
        kernel = jax.tree.map(np.asarray, kernels.build(options.kernel).init(d))
    sizes = {"d": d, "K": options.directions, "A": arms, "A - 1": arms - 1}
    return {part: kernel if prior.shape == ("k",) else np.zeros([sizes[length] if isinstance(length, str) else length
                                                                 for length in prior.shape])
            for part, prior in table(options, outcome, arms).items()}
