"""From the sums told for decisions: along what the effect differs, a rule of few lines, and what it is worth to whom.

    linear summary   b_l = (Σ x̃x̃ᵀ)⁻¹ Σ x̃ τ_l(x) for each draw: the line along the covariates nearest to the effect
    a policy π       V = mean(Γ₀ + πψ)      gain over treating nobody: mean(π(sψ − c)), s = ±1 so that sψ is a benefit
    first q of all   TOC(q) = mean(sψ | the q expected to benefit most) − mean(sψ);  Qini(q) = q TOC(q);  their areas

ψ are doubly robust effects, Γ₀ outcomes without treatment; π is by what the model expects of a person without their own
outcome. Standard errors are those of means over people, given the policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from fedci.coordinator.coordinator import Outcome
from fedci.effect import check_alpha
from fedci.protocol.course import SHARES
from fedci.protocol.rule import NOWHERE, exists
from fedci.result.subgroup_effects import together
from fedci.study.study import Study
from fedci.table.design import design_columns

if TYPE_CHECKING:
    import pandas as pd

GRID = 1.0 / (len(SHARES) + 1)
"""Of shares, over which areas are summed."""


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """What was told of a study with decisions."""

    study: Study
    told: Mapping[str, np.ndarray]
    scales: np.ndarray
    """[d] by which the columns of the design were divided."""
    sites: int
    same: float | None
    """Probability that the effect is the same for all (`diagnostics.sameness`); None: not told."""

    # --- along what

    def projection(self, alpha: float = 0.05) -> pd.DataFrame:
        """The linear summary of the effect: its average, and by how much it rises with one unit of each covariate (of a
        level: against the reference), with intervals and those that hold for all rows at once."""
        import pandas as pd

        names, sds = self._along()
        told = np.diag(self.told["products"]) > 0
        here = np.flatnonzero(told)
        root = np.linalg.pinv(self.told["products"][np.ix_(here, here)]) / sds[here][:, None]
        sums = _difference(self.told["projected"])[:, here]
        found = together(sums @ root.T, root @ self.told["projected_cov"][np.ix_(here, here)] @ root.T,
                         np.eye(len(here)), alpha, p=True)
        return pd.DataFrame({"along": [names[int(k)] for k in here], **found})

    def _along(self) -> tuple[list[str], np.ndarray]:
        columns = self._decisions.columns(self.study.covariates)
        names = design_columns(self.study)[0]
        return ["average", *(names[c] for c in columns)], np.append(1.0, self.scales[list(columns)])

    # --- the rule

    @property
    def _decisions(self) -> Any:
        return self.study.decisions

    @property
    def untold(self) -> list[str]:
        """Groups of the rule, in words, that not one site tells of: too few people are in them, or in all else."""
        rule = self.told["rule"]
        return [self.words(leaf) for leaf in rule[exists(rule) & (self.told["leaf_people"] <= 0)
                                                  & (self.told["leaf_told"] < self.sites)]]

    @property
    def whole(self) -> bool:
        """Whether every site tells of every group of the rule."""
        return bool((self.told["leaf_told"][exists(self.told["rule"])] == self.sites).all())

    def leaves(self, alpha: float = 0.05) -> pd.DataFrame:
        """The rule's groups: in words, people, sites that tell of it, the model's effect with its interval, the doubly
        robust one, and whether the rule treats them: where the model expects more benefit than the cost."""
        import pandas as pd

        there = np.flatnonzero(exists(self.told["rule"]) & (self.told["leaf_people"] > 0))
        people = self.told["leaf_people"][there]
        effects = _difference(self.told["leaf_effects"])[:, there] / people
        cov = self.told["leaf_cov"][np.ix_(there, there)] / np.outer(people, people)
        found = together(effects, cov, np.eye(len(there)), alpha)
        psi, psi2 = self.told["leaf_scores"][there, :2].T
        own = psi / people
        treat = self._decisions.sign * found["mean"] > self._decisions.cost
        frame = pd.DataFrame({"group": [self.words(self.told["rule"][int(k)]) for k in there],
                              "people": np.rint(people).astype(int),
                              "sites": np.rint(self.told["leaf_told"][there]).astype(int), **found})
        if self.has_scores:
            frame["robust"], frame["robust_se"] = own, np.sqrt(np.maximum(psi2 / people - own**2, 0.0) / people)
        return frame.assign(treat=treat)

    def words(self, leaf: np.ndarray) -> str:
        """'stage = III and age below 60'"""
        names, kinds = design_columns(self.study)
        ends: dict[int, tuple[float, float]] = {}
        for column, low, high in leaf:
            if column != NOWHERE:
                before = ends.get(int(column), (-np.inf, np.inf))
                ends[int(column)] = max(before[0], low), min(before[1], high)
        said = (_range(names[c], low, high) if kinds[c] == "numeric" else _level(names[c], kinds[c], low > 0)
                for c, (low, high) in ends.items())
        return " and ".join(said) or "everybody"

    @property
    def carried(self) -> float | None:
        """Share of the spread of expected effects that the rule's groups tell apart; None where nothing tells it, or
        some site does not of some group."""
        if not self.whole:
            return None
        n, d, dd = self.told["same"]
        people, of_leaf = self.told["leaf_people"], self.told["leaf_scores"][:, 3]
        spread = dd - d**2 / max(n, 1.0)
        if not (n > 0 and spread > 1e-12 * n):
            return None
        means = of_leaf / np.maximum(people, 1.0)
        between = people @ (means - of_leaf.sum() / max(people.sum(), 1.0)) ** 2
        return float(np.clip(between / spread * n / max(people.sum(), 1.0), 0.0, 1.0))

    # --- what it is worth

    @property
    def has_scores(self) -> bool:
        """Not of a time to an event, nor where the weights rest on few people."""
        return bool(self.told["scores"][0] > 1)

    def values(self, alpha: float = 0.05) -> pd.DataFrame:
        """Policies: the share that is treated, the average outcome under it, and its net benefit for each person of the
        study beside treating nobody and beside treating everybody, with intervals."""
        import pandas as pd

        n, psi, psi2, zero, zero2, both = self.told["scores"]
        rows = [("treat nobody", np.zeros(4)), ("treat everybody", np.array([n, psi, psi2, both]))]
        if self.told["above_told"][0] == self.sites:
            rows.append((f"treat who is expected to benefit by more than {self._decisions.cost:g}",
                         np.append(self.told["above_people"][0], self.told["above_scores"][0])))
        leaves = self._treated_leaves()
        if leaves is not None:
            rows.append(("treat by the rule", leaves))
        table = [self._policy(name, sums, (n, psi, psi2, zero, zero2), alpha) for name, sums in rows]
        return pd.DataFrame(table)

    def _treated_leaves(self) -> np.ndarray | None:
        """[4] people, Σψ, Σψ², ΣψΓ₀ of those the rule treats; None where some site does not tell of a leaf."""
        if not self.whole:
            return None
        there = exists(self.told["rule"])
        people = np.maximum(self.told["leaf_people"], 1e-300)
        benefit = self._decisions.sign * _difference(self.told["leaf_effects"]).mean(0) / people
        treat = there & (self.told["leaf_people"] > 0) & (benefit > self._decisions.cost)
        return np.append(self.told["leaf_people"][treat].sum(), self.told["leaf_scores"][treat, :3].sum(0))

    def _policy(self, name: str, sums: np.ndarray, of_all: tuple[float, ...], alpha: float) -> dict[str, Any]:
        (n, psi, psi2, zero, zero2), (k, own, own2, own_zero) = of_all, sums
        s, c = self._decisions.sign, self._decisions.cost
        value = _mean_of(n, zero + own, zero2 + 2.0 * own_zero + own2)
        gain = _mean_of(n, s * own - c * k, own2 - 2.0 * s * c * own + c**2 * k)
        rest, rest2, left = psi - own, psi2 - own2, n - k
        over = _mean_of(n, c * left - s * rest, rest2 - 2.0 * s * c * rest + c**2 * left)
        over = over if left > 0.5 else (0.0, 0.0)  # not what rounding leaves of the squares
        return {"policy": name, "treated": k / n, **_ends("value", value, alpha), **_ends("over_nobody", gain, alpha),
                **_ends("over_everybody", over, alpha)}

    def targeting(self, alpha: float = 0.05) -> pd.DataFrame | None:
        """How much more those benefit who are expected to benefit most: for each share that would be treated first,
        their benefit less everybody's (toc) and that times the share (qini), with intervals; and, in the last row, both
        curves' areas. None where some site does not tell of all shares."""
        import pandas as pd

        if not self.has_scores or not (self.told["above_told"][1:] == self.sites).all():
            return None
        n, psi, psi2 = self.told["scores"][:3]
        s, mean = self._decisions.sign, self._decisions.sign * psi / n
        people = np.append(self.told["above_people"][1:], n)
        own, own2 = (np.append(part, of_all) for part, of_all in zip(self.told["above_scores"][1:, :2].T, (psi, psi2),
                                                                     strict=True))
        if (people <= 0).any() or (np.diff(people) < 0).any():
            return None
        bins = np.diff(np.column_stack([people, s * own, own2]), axis=0, prepend=0.0)
        away2 = np.maximum(bins[:, 2] - 2.0 * mean * bins[:, 1] + mean**2 * bins[:, 0], 0.0)
        share = people / n
        weights = (np.tril(np.ones((len(people), len(people)))) / share[:, None] - 1.0)[:-1]  # [q, bin]
        rows = [self._curve(own, bins, mean, away2, n) for own in weights]
        toc = [(*row, *(share[j] * part for part in row)) for j, row in enumerate(rows)]
        area = (*self._curve(GRID * weights.sum(0), bins, mean, away2, n),
                *self._curve(GRID * (share[:-1, None] * weights).sum(0), bins, mean, away2, n))
        factor = float(ndtri(1.0 - check_alpha(alpha) / 2.0))
        table = [{"first": where, "toc": t, "toc_low": t - factor * e, "toc_high": t + factor * e,
                  "qini": q, "qini_low": q - factor * f, "qini_high": q + factor * f}
                 for where, (t, e, q, f) in zip([*(f"{100 * one:.0f}%" for one in share[:-1]), "area"], [*toc, area],
                                                strict=True)]
        return pd.DataFrame(table)

    @staticmethod
    def _curve(weights: np.ndarray, bins: np.ndarray, mean: float, away2: np.ndarray, n: float) -> tuple[float, float]:
        """(mean of h(sψ − mean), its standard error), h constant within each bin."""
        total = float(weights @ (bins[:, 1] - mean * bins[:, 0])) / n
        square = float(weights**2 @ away2) / n
        return total, float(np.sqrt(max(square - total**2, 0.0) / n))

    # --- in words

    def rule(self) -> list[str]:
        """At most three lines, whom to treat; and one more where the sites tell too little of some group."""
        table = self.leaves()
        treated, untold = table[table.treat], [
            f"Nothing is said of {words}: too few people at each site are in that group, or in all else."
            for words in self.untold]
        if len(treated) == len(table):
            return ["Treat everybody."] if not untold else [*(f"Treat if {one}." for one in table.group), *untold]
        if not len(treated):
            return ["Treat nobody."] if not untold else [*(f"Do not treat if {one}." for one in table.group), *untold]
        chosen = self.told["rule"][exists(self.told["rule"]) & (self.told["leaf_people"] > 0)][table.treat.to_numpy()]
        return [*(f"Treat if {self.words(leaf)}." for leaf in _merged(chosen)), *untold]

    def plain(self, alpha: float = 0.05) -> dict[str, Any]:
        """As JSON holds it."""
        targeting = self.targeting(alpha)
        return {"same_effect_for_all": self.same, "projection": _records(self.projection(alpha)),
                "groups": _records(self.leaves(alpha)), "carried": self.carried, "rule": self.rule(),
                "values": _records(self.values(alpha)) if self.has_scores else None,
                "targeting": None if targeting is None else _records(targeting)}


def _merged(leaves: np.ndarray) -> list[np.ndarray]:
    """Two leaves of one first question that differ in the second alone are one."""
    found: list[np.ndarray] = []
    for leaf in leaves:
        if found and np.array_equal(found[-1][0], leaf[0]):
            found[-1] = np.stack([leaf[0], [NOWHERE, -np.inf, np.inf]])
        else:
            found.append(leaf)
    return found


def deciding(study: Study, told: Mapping[str, np.ndarray], scales: np.ndarray, sites: int,
             same: float | None) -> Deciding | None:
    """None where it was given up."""
    return Deciding(study=study, told=told, scales=scales, sites=sites, same=same) if told else None


def deciding_of(study: Study, outcome: Outcome) -> Deciding | None:
    """Of a result."""
    layout, known = outcome.layout, outcome.diagnostics
    same = known.sameness.probability if known is not None and known.sameness is not None else None
    return deciding(study, outcome.effects.decisions, layout.scales.x_sd, len(layout.sites), same)


def in_words(found: Deciding | None, alpha: float) -> list[str]:
    """For the summary."""
    if found is None:
        return ["What the study asks for decisions was given up: a site refused it (see the diagnostics' notes).", ""]
    level, lines = f"{100 * (1 - alpha):g}%", [differs(found)]
    lines += ["", f"The linear summary of the effect, for one unit of each covariate ({level} intervals; all_: that "
                  f"hold for all rows at once):", _aligned(found.projection(alpha)), ""]
    lines += [*found.rule(), _aligned(found.leaves(alpha)), ""]
    if found.has_scores:
        lines += [f"What policies are worth for each person of the study, the cost taken off, by doubly robust sums "
                  f"({level} intervals):", _aligned(_joined(found.values(alpha), {
                      "value": "outcome", "over_nobody": "gain over nobody", "over_everybody": "over everybody"})), ""]
    else:
        lines += [without_values(found.study.outcome_type), ""]
    targeting = found.targeting(alpha)
    return [*lines, *([f"Treating those first who are expected to benefit most (toc: their benefit above the average; "
                       f"qini: times the share; {level} intervals):",
                       _aligned(_joined(targeting, {"toc": "toc", "qini": "qini"})), ""]
                      if targeting is not None else [])]


def without_values(outcome: str) -> str:
    """Why no policy has a value, and what to do."""
    if outcome == "survival":
        return ("What policies are worth is not told of a time to an event: a doubly robust sum would need to know why "
                "people were followed no longer. Where all were followed to a horizon, a study of 0 and 1 (the event "
                "by then) tells it.")
    return ("What policies are worth is not told: at no site do both arms have people enough for weights by the "
            "propensity (the policy's min_cell). Overlap says where treated and untreated can be compared.")


def _joined(table: pd.DataFrame, heads: Mapping[str, str]) -> pd.DataFrame:
    """Numbers with their intervals in one column: 'x (low to high)'."""
    rest = [name for name in table if not name.startswith(tuple(heads))]
    return table[rest].assign(**{head: [f"{value:.3g} ({low:.3g} to {high:.3g})" for value, low, high in zip(
        *(table[f"{name}{end}"] for end in ("", "_low", "_high")), strict=True)] for name, head in heads.items()})


def differs(found: Deciding) -> str:
    """Whether the rule is to be acted upon: the sign that effects differ has false alarms below 5 %."""
    carried = ("" if found.carried is None else
               f"; its groups tell {found.carried:.0%} of the expected differences apart")
    if found.same is None:
        return f"Whether effects differ between people was not tested; the rule below is a summary{carried}."
    if found.same < 0.05:
        return (f"Effects differ between people (probability that they are the same for all: {found.same:.1%}). The "
                f"rule below summarises who benefits{carried}.")
    return (f"No clear sign that effects differ between people (probability that they are the same for all: "
            f"{found.same:.0%}): the rule below is a summary, and no ground to treat people differently{carried}.")


def _difference(sums: np.ndarray) -> np.ndarray:
    """[L, e] effects from [L, a, e]."""
    return sums[:, 0] if sums.shape[1] == 1 else sums[:, 1] - sums[:, 0]


def _mean_of(n: float, total: float, square: float) -> tuple[float, float]:
    """(mean, its standard error)."""
    mean = total / n
    return mean, float(np.sqrt(max(square / n - mean**2, 0.0) / n))


def _ends(name: str, found: tuple[float, float], alpha: float) -> dict[str, float]:
    mean, half = found[0] + 0.0, float(ndtri(1.0 - check_alpha(alpha) / 2.0)) * found[1]  # no −0
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}


def _range(name: str, low: float, high: float) -> str:
    if not np.isfinite(low):
        return f"{name} below {high:g}"
    return f"{name} {low:g} and above" if not np.isfinite(high) else f"{name} {low:g} to below {high:g}"


def _level(name: str, kind: str, is_one: bool) -> str:
    covariate, _, level = name.partition("=")
    if kind == "binary" or not level:
        return f"{name} = {int(is_one)}"
    return f"{covariate} = {level}" if is_one else f"{covariate} other than {level}"


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): None if isinstance(value, float) and not np.isfinite(value) else value
             for key, value in row.items()} for row in table.to_dict("records")]


def _aligned(table: pd.DataFrame) -> str:
    return table.to_string(index=False, float_format=lambda value: f"{value:.4g}")

