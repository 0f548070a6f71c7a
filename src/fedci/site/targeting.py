"""A site's side of decisions: sums for the effect's linear summary, for the leaves of the rule, and for whom to treat.

    x̃ = (1, covariates `along`, in pooled sds)     Σ x̃x̃ᵀ, Σ x̃ τ_l(x) of each draw
    leaf                                           Σ τ_l(x), and of doubly robust effects ψ: Σψ, Σψ², and Σd
    d_i > t                                        Σψ, Σψ², ΣψΓ₀ over those predicted to benefit by more than t

d_i is what the model expects of person i *without their outcome*, so choosing by it and valuing by ψ_i, which has the
outcome's noise, are apart: a rule is not praised for the noise it was chosen by. Γ₀ is the doubly robust outcome
without treatment. Of which leaves and thresholds a site tells, `site.grouping` decides as of subgroups, after these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedci.diagnostics import heterogeneity, propensity
from fedci.model.family import Arrays
from fedci.model.rows import BetaLaw, on_device
from fedci.protocol import rule as rules
from fedci.site import grouping
from fedci.site.describing import Part
from fedci.site.diagnosing import Here, by_person, tells_own_effect
from fedci.site.left_out import predicted
from fedci.site.prepared import Prepared
from fedci.site.run import Party, Run

MOMENTS = 6
"""n, Σψ, Σψ², ΣΓ₀, ΣΓ₀², ΣψΓ₀ over everybody."""


def answer(party: Party, run: Run, ready: Prepared, here: Here, arrays: Arrays) -> Part:
    x = party.whole.x[run.rows]
    scores = _scores(here, arrays)
    leaves = rules.holds(arrays["rule"], x)
    above = np.zeros((len(arrays["cutoffs"]), len(x)), bool)
    if scores is not None:
        above = float(arrays["sign"]) * scores["d"] > arrays["cutoffs"][:, None]
    told = grouping.tells_of(party, run, np.vstack([grouping.members(party, run), leaves, above]),
                             grouping.counted(run, ready))
    of_leaves, of_above = np.split(told[len(run.study.groups):], [len(leaves)])
    of_above = _all_or_none(of_above)
    columns = np.vstack([np.ones(len(x)), _along(here, run)])
    sums = grouping.weighed(party.name, run, ready, np.vstack([columns, leaves * of_leaves[:, None]]))
    k = len(columns)
    part = {"products": columns @ columns.T, "projected": sums.sums[..., :k], "projected_cov": _mean(sums.cov)[:k, :k],
            "leaf_told": of_leaves.astype(float), "leaf_people": (leaves * of_leaves[:, None]).sum(1).astype(float),
            "leaf_effects": sums.sums[..., k:], "leaf_cov": _mean(sums.cov)[k:, k:],
            "above_told": of_above.astype(float), "above_people": (above * of_above[:, None]).sum(1).astype(float)}
    return Part(part | _valued(scores, leaves * of_leaves[:, None], above * of_above[:, None]))


def _mean(cov: Any) -> np.ndarray:
    return np.asarray(np.asarray(cov).mean(0))


def _all_or_none(told: np.ndarray) -> np.ndarray:
    """Of the shares, behind the first, which is of the cost: a curve has all its points or none."""
    return np.append(told[:1], np.full(len(told) - 1, told[1:].all()))


def _along(here: Here, run: Run) -> np.ndarray:
    """[k, n] in pooled sds; missing: the mean, and of a column that stays here nothing."""
    if run.study.decisions is None:
        raise AssertionError("only a study with decisions asks for them")
    own = here.units.covariates(here.table.x)
    return np.asarray(own[:, list(run.study.decisions.columns(run.study.covariates))].T)


def _scores(here: Here, arrays: Arrays) -> Mapping[str, np.ndarray] | None:
    """ψ, Γ₀ and d of each person, in model units of a number; None of a time to an event, and where the weights of ψ
    rest on few people."""
    kind = here.model.outcome
    if kind == "survival" or not len(arrays["slopes"]) or here.posterior is None:
        return None
    w = here.table.w
    e = propensity.scores(here.scaled(arrays), w, arrays["slopes"])
    if not tells_own_effect(here, e):
        return None
    law = BetaLaw(on_device(arrays["beta_mean"]), on_device(arrays["beta_root"]))
    arms = predicted(here.table, here.units, here.model, here.arrays, here.posterior, law).arms
    y, unit = by_person(here.table, kind), here.units.of_effects(kind)
    psi = heterogeneity.influence(w, y, arms, e)
    weight = np.where(w == 0, heterogeneity.weights(w, e), 0.0)
    untreated = arms[:, 0] + weight * (y - arms[:, 0])
    d = arms[:, 1] - arms[:, 0]
    return {"psi": psi / unit, "untreated": (untreated - here.units.y_mean) / unit, "d": d / unit}


def _valued(scores: Mapping[str, np.ndarray] | None, leaves: np.ndarray, above: np.ndarray) -> dict[str, Any]:
    if scores is None:
        return {"leaf_scores": np.zeros((len(leaves), 4)), "above_scores": np.zeros((len(above), 3)),
                "scores": np.zeros(MOMENTS)}
    psi, untreated, d = scores["psi"], scores["untreated"], scores["d"]
    one = np.ones_like(psi)
    return {"leaf_scores": leaves @ np.column_stack([psi, psi**2, psi * untreated, d]),
            "above_scores": above @ np.column_stack([psi, psi**2, psi * untreated]),
            "scores": one @ np.column_stack([one, psi, psi**2, untreated, untreated**2, psi * untreated])}


KINDS: Mapping[str, Callable[[Party, Run, Prepared, Here, Arrays], Part]] = {
    "subgroups": grouping.answer, "decisions": answer}
"""Kinds of diagnostics for which a site has to know what it has told, and not its people alone."""
