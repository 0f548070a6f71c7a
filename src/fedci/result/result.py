"""What a study found: average effects everywhere, and, at a site that owns the rows, effects for its people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedci.coordinator.coordinator import Outcome
from fedci.diagnostics.findings import Diagnostics
from fedci.diagnostics.plausibility import Plausibility
from fedci.effect import CORRELATIONS, POPULATIONS, Effect, EffectSums, Rates, Risks, check_alpha
from fedci.errors import UsageError
from fedci.plain import Shown
from fedci.protocol import optimise
from fedci.protocol.engine import Traffic
from fedci.result import averages, blinding, elsewhere, explained, individual, record, suited, words
from fedci.result.curves import Survival
from fedci.result.deciding import Deciding, deciding_of
from fedci.result.degenerate import plausibility_of
from fedci.result.habits import HABITS
from fedci.result.subgroup_effects import Subgroups, subgroups_of
from fedci.result.versions import versions
from fedci.site.people import PAIR, Pair, People
from fedci.study.options import nearest
from fedci.study.study import Study
from fedci.table.design import design_from
from fedci.table.source import Source

if TYPE_CHECKING:
    import pandas as pd

@dataclass(kw_only=True, repr=False)
class Result(Shown):
    """A fitted study.

    Effects come in two kinds (`of`):
      'cate'  the expected effect given the covariates, E[y(1) − y(0) | x]: what a user of EconML means (default);
      'ite'   the realised effect y(1) − y(0) of the people in the study, the paper's: it uses each person's own
              outcome, and its spread holds the noise of the outcome nobody saw.
    Of more than two arms every effect is a contrast: `contrasts()` has all of them, `between(arm, against)` is this
    result as one of those two arms alone, and `arm_table()` has what is expected in each.
    Of an outcome of 0 and 1 an effect is a difference of risks, `risks` has the rest, and there is no 'ite'; of a
    time to an event, of risks by the last horizon, and `survival` has the rest; of a count, of rates (`rates`).
    """

    study: Study
    outcome: Outcome
    people: Mapping[str, People]
    """Of each site whose rows are here: all in one process, one at a site, none at a coordinator."""
    traffic: Mapping[str, Traffic] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=versions)
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    opened: Mapping[str, str] | None = None
    """Of a blinded study: when ('at'), by whom and why its effects were opened; None: not yet."""
    pair: Pair | None = None
    """Of more than two arms, the two that all of it is about (`between`): (against, arm); None: all of them."""

    def shown(self) -> str:
        """The first lines of `summary`, which has the rest."""
        head = [line for line in self.summary().split("\n\n")[0].splitlines() if line] if not self.blinded else [
            f"Result of study '{self.study.name}', blinded: read .diagnostics, then .unblind(by=…)"]
        return "\n".join([*head, "print(result.summary()) has the table, result.diagnostics what speaks against it"])

    if not TYPE_CHECKING:  # a checker that saw this would take any name for one of ours

        def __getattr__(self, name):
            """For what other packages call it."""
            raise AttributeError(f"'Result' has no {name!r}{HABITS.get(name, '')}")

    @property
    def sites(self) -> tuple[str, ...]:
        return self.outcome.layout.sites

    @property
    def verdict(self) -> str:
        """'converged', 'stopped at the cap' or 'diverged'."""
        return self.outcome.fit.verdict

    @property
    def converged(self) -> bool:
        return self.verdict == optimise.CONVERGED

    # --- diagnostics come before the effects

    @property
    def diagnostics(self) -> Diagnostics | None:
        """Balance, overlap, fit, heterogeneity, sensitivity, refuters; `print` it for sentences with verdicts.

        None where the study does not want them; without what tells the effect while the study is blinded.
        """
        known = self.outcome.diagnostics
        return known.sealed() if known is not None and self.blinded else known

    @property
    def degenerate(self) -> str | None:
        """Where noise, effects or intervals have sizes that the outcome leaves no room for: what was seen and what to
        do, in words. The numbers can be asked for, and are not to be used. None: no such thing was seen."""
        known = self.diagnostics
        seen = known.plausibility if known is not None else None
        return (seen or self._plausibility()).degenerate

    def _plausibility(self) -> Plausibility:
        """Of a study without diagnostics, or of a version without this one. Of more arms, of the first contrast with
        sizes that cannot be, if there is one."""
        pairs = self.pairs if self._of_all_arms else (self._pair,)
        each = [plausibility_of(self.study, self.outcome, pair, self._of(pair)._each_sums()) for pair in pairs]
        each = [one.sealed() for one in each] if self.blinded else each
        return next((one for one in each if one.degenerate), each[0])

    # --- more than two arms

    @property
    def many(self) -> bool:
        """Whether the study has more than two arms."""
        return bool(self.study.arms)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """(against, arm) of every contrast, those with the reference first."""
        places = range(len(self.study.arm_names))
        return tuple((against, arm) for against in places for arm in places if against < arm)

    @property
    def _pair(self) -> Pair:
        if self.many and self.pair is None:
            arms = self.study.arms
            raise UsageError(f"the study has {len(arms)} arms, {', '.join(arms)}, and an effect is of one against "
                             f"another: contrast=({arms[1]!r}, {arms[0]!r}), result.between({arms[1]!r}, {arms[0]!r}), "
                             f"or all of them with result.contrasts()")
        return self.pair or PAIR

    def between(self, arm: str, against: str | None = None) -> Result:
        """The same result of two of its arms alone: whatever is asked of it is of `arm` compared with `against`; none:
        with the reference, the study's first. Its treated are who got `arm`, its untreated who got `against`."""
        names = self.study.arm_names
        against = names[0] if against is None else against
        for name in (arm, against):
            if name not in names:
                raise UsageError(f"the study has no arm {name!r}: it has {', '.join(names)}")
        if arm == against:
            raise UsageError(f"an arm compared with itself has no effect: give two of {', '.join(names)}")
        if not self.many and (arm, against) != (names[1], names[0]):
            raise UsageError("a study of two arms compares the treated with the untreated, which result.ate() does")
        return self._of((names.index(against), names.index(arm)))

    def _of(self, pair: Pair) -> Result:
        return replace(self, pair=pair) if self.many else self

    def _against(self, contrast: tuple[str, str] | None) -> Result:
        return self if contrast is None else self.between(*contrast)

    def said(self, pair: Pair) -> str:
        """'Lev+5FU vs Obs'."""
        names = self.study.arm_names
        return f"{names[pair[1]]} vs {names[pair[0]]}"

    def _by_contrast(self, table: Callable[[Result], pd.DataFrame]) -> pd.DataFrame:
        self._check_open()
        return averages.by_contrast({pair: table(self._of(pair)) for pair in self.pairs}, self.study.arm_names)

    def arm_table(self, alpha: float = 0.05) -> pd.DataFrame:
        """What is expected in each arm on average (a mean, a risk, of a time by the last horizon, or a rate), if all
        people of a group got it: over everybody ('all'), and over who got each arm."""
        self._check_open()
        if not self.many:
            raise UsageError("the study has two arms: ask for table(), risk_table() or rate_table()")
        centre = self.outcome.layout.scales.y_mean if self.of_numbers else 0.0
        sums = {site or averages.ALL: self._all_sums(site) for site in (None, *self.outcome.effects.sums)}
        return averages.of_arms(sums, self.study.arm_names, centre, alpha)

    @property
    def of_risks(self) -> bool:
        """Whether the outcome is 0 and 1, at once or in time, and effects are differences of risks."""
        return self.study.outcome_type in ("binary", "survival")

    @property
    def of_times(self) -> bool:
        """Whether the outcome is a time to an event."""
        return self.study.outcome_type == "survival"

    @property
    def of_rates(self) -> bool:
        """Whether the outcome is a count, and effects are differences of rates."""
        return self.study.outcome_type == "count"

    @property
    def of_numbers(self) -> bool:
        return self.study.outcome_type == "numeric"

    @property
    def blinded(self) -> bool:
        """Whether the effects are sealed: the study says so, and nobody has opened them."""
        return self.study.diagnostics.blinded and self.opened is None

    def unblind(self, by: str, reason: str = "") -> Result:
        """Open the effects of a blinded study, once the diagnostics were read; who and when is kept with the result.

        Where a diagnostic is a problem, a reason is asked for. `save` the result to keep that it was opened.
        """
        if not self.blinded:
            raise UsageError("the effects are open already" + (f", by {self.opened['by']} at {self.opened['at']}"
                                                               if self.opened else ": the study is not blinded"))
        # of the diagnostics what is open: the rest would tell part of the effect
        self.opened = blinding.opened(self.diagnostics, by, reason)
        return self

    def _check_open(self) -> None:
        blinding.check_open(self.blinded)

    # --- average effects: the coordinator's

    def ate(self, site: str | None = None, of: str = "cate", noise_correlation: float | None = None,
            contrast: tuple[str, str] | None = None) -> Effect:
        """The average effect over all people of the study, or of one site: `.mean`, `.sd`, `.interval(alpha)`.
        `contrast`: of more than two arms, (arm, against)."""
        return self._against(contrast)._average("all", site, of, noise_correlation)

    def att(self, site: str | None = None, of: str = "cate", noise_correlation: float | None = None,
            contrast: tuple[str, str] | None = None) -> Effect:
        """The average effect over the treated; of a contrast over who got the arm."""
        return self._against(contrast)._average("treated", site, of, noise_correlation)

    def atc(self, site: str | None = None, of: str = "cate", noise_correlation: float | None = None,
            contrast: tuple[str, str] | None = None) -> Effect:
        """The average effect over those not treated; of a contrast over who got the arm that it is against."""
        return self._against(contrast)._average("control", site, of, noise_correlation)

    def ate_interval(self, alpha: float = 0.05, site: str | None = None,
                     contrast: tuple[str, str] | None = None) -> tuple[float, float]:
        return self.ate(site, contrast=contrast).interval(alpha)

    def _average(self, population: str, site: str | None, of: str, noise_correlation: float | None) -> Effect:
        self._check_open()
        sums = self._sums(site)
        if sums.people(population) == 0:
            raise UsageError(f"there is nobody in the group '{population}'" + (f" at site '{site}'" if site else ""))
        if of == "cate":
            return sums.expected(population)
        if of != "ite":
            raise UsageError(f"of = {of!r} is unknown: choose 'cate' (expected effects) or 'ite' (realised effects)")
        suited.check_realised(self.study)
        if not self.study.tells_realised:
            raise UsageError("realised effects are not told where effects have noise for privacy (policy.noised, or "
                             "policy.sum_noise): ask for of='cate'")
        return sums.realised(noise_correlation, population)

    def risks(self, site: str | None = None, population: str = "all", time: float | None = None) -> Risks:
        """Average risks of an outcome of 0 and 1 without and with treatment, over 'all', the 'treated' or the
        'control's: `.difference`, `.ratio`, `.odds_ratio`, `.number_needed(alpha)`. Of a time to an event, by `time`;
        none: by the last horizon."""
        self._check_open()
        suited.check_of_risks(self.study)
        if time is not None:
            return self.survival(site, population).risks(time)
        return self._of_people(site, population).risks(population)

    def survival(self, site: str | None = None, population: str = "all") -> Survival:
        """Average curves of a time to an event without and with treatment: `.times`, `.of_untreated`,
        `.difference(time)`, `.rmst(time)`, `.risks(time)`."""
        self._check_open()
        suited.check_of_times(self.study)
        curves = self._of_people(site, population).curves(population)
        return Survival(self.outcome.layout.timing, curves[:, 0], curves[:, 1])

    def rates(self, site: str | None = None, population: str = "all") -> Rates:
        """Average rates of a count without and with treatment, per unit of exposure: `.difference`, `.ratio`."""
        self._check_open()
        suited.check_of_rates(self.study)
        return self._of_people(site, population).rates(population)

    def _of_people(self, site: str | None, population: str) -> EffectSums:
        if population not in (known := [row.name for row in POPULATIONS]):
            raise UsageError(f"population = {population!r} is unknown: choose {', '.join(map(repr, known))}")
        sums = self._sums(site)
        if sums.people(population) == 0:
            raise UsageError(f"there is nobody in the group '{population}'" + (f" at site '{site}'" if site else ""))
        return sums

    def _sums(self, site: str | None = None) -> EffectSums:
        """Of one site, or of all, of both arms."""
        return self._all_sums(site).between(*self._pair)

    def _each_sums(self) -> dict[str, EffectSums]:
        """Of all sites together, and of each whose sums were told."""
        return {site or averages.ALL: self._sums(site) for site in (None, *self.outcome.effects.sums)}

    def _all_sums(self, site: str | None = None) -> EffectSums:
        """Of all arms; with noise for privacy, a site's are over all draws, which the sites share."""
        effects, noised = self.outcome.effects, self.study.policy.noises("effects")
        if site is None:
            return replace(effects.over_all, dependent=noised)
        if self._known(site) not in effects.sums:
            raise UsageError(f"the average effects of site '{site}' stay at the site: the study's policy says "
                             f"site_effects = false, or has noise on all sums. Ask the site")
        return EffectSums((effects.sums[site],), noised)

    def _known(self, site: str) -> str:
        if site not in self.sites:
            raise UsageError(f"there is no site {site!r} in this study{nearest(str(site), self.sites) or '.'} It has "
                             f"{', '.join(self.sites)}")
        return site

    # --- effects for people: only where their rows, or their site's, are

    def effect(self, X: Any, site: str | None = None, contrast: tuple[str, str] | None = None) -> np.ndarray:
        """[p] expected effect for each row of X (a frame, or an array in the order of the study's covariates).

        `site` says where the person is treated; its rows must be here. None: at a site outside the study.
        `contrast`: of more than two arms, (arm, against).
        """
        return np.asarray(self.effect_posterior(X, site, contrast=contrast).mean)

    def effect_interval(self, X: Any, site: str | None = None, alpha: float = 0.05, outcome_noise: bool = False,
                        contrast: tuple[str, str] | None = None) -> tuple[np.ndarray, np.ndarray]:
        """([p] lower, [p] upper) of the 1 − alpha interval; with `outcome_noise`, of a person's realised effect."""
        check_alpha(alpha)
        return self.effect_posterior(X, site, outcome_noise, contrast).interval(alpha)

    def effect_posterior(self, X: Any, site: str | None = None, outcome_noise: bool = False,
                         contrast: tuple[str, str] | None = None) -> Effect:
        """The whole posterior of `effect`: `.mean`, `.sd`, `.interval(alpha)`, `.sample(count, seed)`."""
        self._check_open()
        x, _ = design_from(self.study, X, site or "new")
        return self._against(contrast).effects_at(x, site, outcome_noise)

    def effects_at(self, x: np.ndarray, site: str | None = None, outcome_noise: bool = False) -> Effect:
        """`effect_posterior` at rows x [p, d] of the design."""
        self._check_open()
        if not len(x):
            raise UsageError("the table of people to predict for has no rows: give at least one person")
        if not self.of_numbers:
            if outcome_noise:
                suited.check_realised(self.study)
            return (self.rates_at(x, site) if self.of_rates else self.risks_at(x, site)).difference
        if site:
            return self._here(site).cate(x, outcome_noise, self._pair)
        return elsewhere.effects(self.study, self.outcome, x, self._pair, outcome_noise)

    def risk_posterior(self, X: Any, site: str | None = None) -> Risks:
        """Risks without and with treatment of each row of X, where the outcome is 0 and 1: `.of_untreated.mean`,
        `.difference.interval(alpha)`, `.ratio`, …"""
        self._check_open()
        x, _ = design_from(self.study, X, site or "new")
        return self.risks_at(x, site)

    def risks_at(self, x: np.ndarray, site: str | None = None) -> Risks:
        """`risk_posterior` at rows x [p, d] of the design."""
        self._check_open()
        suited.check_of_risks(self.study)
        if not len(x):
            raise UsageError("the table of people to predict for has no rows: give at least one person")
        found = self.rates_at(x, site)
        return Risks(found.untreated, found.treated)

    def rates_at(self, x: np.ndarray, site: str | None) -> Rates:
        """Risks, or rates, at rows x [p, d] of the design."""
        self._check_open()
        if site:
            return self._here(site).risks(x, self._pair)
        return elsewhere.rates(self.study, self.outcome, x, self._pair)

    def rate_posterior(self, X: Any, site: str | None = None) -> Rates:
        """Rates without and with treatment of each row of X, where the outcome is a count."""
        self._check_open()
        suited.check_of_rates(self.study)
        return self.rates_at(design_from(self.study, X, site or "new")[0], site)

    def survival_posterior(self, X: Any, site: str | None = None) -> Survival:
        """Curves without and with treatment of each row of X, where the outcome is a time to an event:
        `.difference(time)`, `.rmst(time)`, …"""
        self._check_open()
        suited.check_of_times(self.study)
        x, _ = design_from(self.study, X, site or "new")
        curves = self._here(site).curves(x) if site else elsewhere.curves(self.study, self.outcome, x)
        return Survival(self.outcome.layout.timing, *(curves[..., arm] for arm in self._pair))

    def shared_effects_at(self, x: np.ndarray) -> np.ndarray:
        """[L, p] effects at rows of the design by each draw of what all sites share, without what is a site's own."""
        if self.of_numbers:
            return self.effects_at(x).means
        rates = self.shared_rates_at(x)
        return rates.treated - rates.untreated

    def shared_rates_at(self, x: np.ndarray) -> Rates:
        """Likewise the risks (of a time by the last horizon), or rates, of what is no number."""
        self._check_open()
        return elsewhere.rates(self.study, self.outcome, x, self._pair, drawn=False)

    def effect_bounds(self, X: Any, strength: float, site: str) -> tuple[np.ndarray, np.ndarray]:
        """([p] lower, [p] upper) of the expected effect for each row of X, if unmeasured confounding is at most
        `strength`: Λ ≥ 1 of the marginal sensitivity model, by which odds of treatment may differ among people alike in
        X (docs/diagnostics.md). Bounds of the posterior mean: an interval's ends move by as much.
        """
        suited.check_bounds(self.study, strength)
        mean = self.effect(X, site)
        half = individual.half_widths(self.study, self.outcome, X, site, strength)
        return mean - half, mean + half

    def ite(self, site: str, noise_correlation: float | None = None, alpha: float = 0.05) -> pd.DataFrame:
        """Effects of the site's own people, in the order of its rows; they stay at the site that owns them.

        The index is the row of the site's table, from 0; people whom linkage left out are missing in it.
        Columns: cate, cate_sd, cate_low, cate_high (expected), ite, ite_sd, ite_low, ite_high (realised).
        No data inform the correlation of the two outcomes' noise, on which the realised effects' spread depends:
        give `noise_correlation` in (−1, 1) to see how; None takes the prior's.
        Of an outcome of 0 and 1, in place of realised effects: risk_untreated, risk_treated with their ends.
        """
        self._check_open()
        return individual.people_effects(self._here(site), noise_correlation, alpha, self.study.arms)

    def impute(self, people: Any, site: str, noise_correlation: float | None = None,
               draws: int | None = None) -> Effect:
        """Realised effects of people outside the fit whose treatment and outcome are known (a frame or a path).

        Time is cubic in the people, for each posterior draw: `draws` takes only the first so many.
        """
        self._check_open()
        suited.check_realised(self.study)
        individual.check_correlation(noise_correlation)
        return self._here(site).impute(*Source(site, people).read_people(self.study), noise_correlation, draws)

    def _here(self, site: str) -> People:
        if self._known(site) not in self.people:
            raise UsageError(f"the rows of site '{site}' are not here, and its people's effects need them. "
                             f"Ask at the site, or call effect(X) without a site for people elsewhere.")
        return self.people[site]

    # --- tables and words

    def table(self, alpha: float = 0.05) -> pd.DataFrame:
        """ATE, ATT and ATC, of all sites together and of each: mean, sd, interval, people; of more arms `contrasts`."""
        self._check_open()
        return self.contrasts(alpha) if self._of_all_arms else averages.of_effects(self._each_sums(), alpha)

    def risk_table(self, alpha: float = 0.05) -> pd.DataFrame:
        """Of an outcome of 0 and 1, over the same people as `table`, of all sites together and of each: risks without
        and with treatment, their difference, ratio, odds ratio and the number needed to treat, each with its interval.

        Ratios are medians. The number needed is empty where the interval of the difference holds 0.
        """
        self._check_open()
        suited.check_of_risks(self.study)
        return (self._by_contrast(lambda one: one.risk_table(alpha)) if self._of_all_arms else
                averages.of_risks(self._each_sums(), alpha))

    def survival_table(self, alpha: float = 0.05) -> pd.DataFrame:
        """Of a time to an event, over the same people as `table`, at the end of each interval and at each horizon:
        survival without and with treatment, its difference, restricted mean times and theirs, each with its ends."""
        self._check_open()
        suited.check_of_times(self.study)
        return (self._by_contrast(lambda one: one.survival_table(alpha)) if self._of_all_arms else
                averages.of_survival(self._each_sums(), self.outcome.layout.timing, self.study.horizons, alpha))

    def rate_table(self, alpha: float = 0.05) -> pd.DataFrame:
        """Of a count, over the same people as `table`: rates without and with treatment, their difference and ratio (a
        median), each with its interval."""
        self._check_open()
        suited.check_of_rates(self.study)
        return (self._by_contrast(lambda one: one.rate_table(alpha)) if self._of_all_arms else
                averages.of_rates(self._each_sums(), alpha))

    @property
    def _of_all_arms(self) -> bool:
        """Whether a table has a part for each contrast."""
        return self.many and self.pair is None

    def drivers(self, strongest: int = 4) -> pd.DataFrame | None:
        """What carries the outcome and the effect, by the evidence: lines, each direction, products and thresholds, the
        sites' own functions.

        One row per part: its share of the variation of the outcome and of the effect, and the covariates with the
        largest weights in a direction, or of the greatest relevance to products and thresholds (either of length 1).
        `thresholds` says where abrupt changes are. None for the paper's model.
        """
        self._check_open()
        return explained.drivers(self.study, self.outcome, self.pair, strongest)

    def thresholds(self, alpha: float = 0.05) -> pd.DataFrame | None:
        """Where the outcome without treatment, and the effect, change abruptly along a numeric covariate, averaged over
        the others, in the data's units; at most three of each, those of probability 0.9 or more (docs/model.md).

        One row per threshold: of ('outcome' or 'effect'), covariate, place, change (from below the place to above it),
        the ends of their intervals, probability. None for the paper's model, and where the outcome is 0 and 1.
        """
        self._check_open()
        return explained.thresholds(self.study, self.outcome, self.pair, alpha)

    def sensitivity(self, alpha: float = 0.05) -> pd.DataFrame:
        """How realised effects depend on the noise correlation that no data inform.

        One row per correlation ('prior' is Σ's own law): the average realised effect, its interval, and the mean
        standard deviation of one person's effect.
        """
        import pandas as pd

        rows = []
        for correlation in CORRELATIONS.tolist():
            effect = self.ate(of="ite", noise_correlation=correlation)
            low, high = effect.interval(alpha)
            rows.append({"noise_correlation": "prior" if np.isnan(correlation) else correlation, "mean": effect.mean,
                         "low": low, "high": high, "person_sd": self._sums().person_sd(correlation)})
        return pd.DataFrame(rows)

    def subgroups(self, alpha: float = 0.05) -> pd.DataFrame:
        """The effect in each subgroup that the study names, one row each: people, sites that tell of it, mean, sd, its
        interval (low, high) and one that holds for all rows at once (all_low, all_high)."""
        return self.groups.table(alpha)

    def contrasts(self, alpha: float = 0.05) -> pd.DataFrame:
        """Of subgroups: how the effect differs between the groups of each definition, with intervals and with those
        that hold for all rows at once.

        Of more than two arms: every arm against every other, those with the reference first; `table` of each, one below
        the other, with the columns arm and against. Its ATE is over everybody, its ATT over who got `arm`, its ATC over
        who got `against`.
        """
        return self._by_contrast(lambda one: one.table(alpha)) if self.many else self.groups.contrasts(alpha)

    @property
    def groups(self) -> Subgroups:
        """Effects in the study's subgroups, draw by draw: `.table`, `.contrasts`, `.effect(name)`."""
        self._check_open()
        if not self.study.subgroups:
            raise UsageError("the study names no subgroups: write them under [subgroups] (docs/decisions.md)")
        found = subgroups_of(self.study.groups, self.outcome.effects.subgroups, self.of_rates)
        if found is None:
            raise UsageError("the study's subgroups were not told: print(result.diagnostics) says why")
        return found

    @property
    def decisions(self) -> Deciding:
        """What the study asks for decisions (`[decisions]`): `.projection()`, `.leaves()`, `.rule()`, `.values()`,
        `.targeting()`."""
        self._check_open()
        if self.study.decisions is None:
            raise UsageError("the study asks nothing for decisions: write [decisions] (docs/decisions.md)")
        found = deciding_of(self.study, self.outcome)
        if found is None:
            raise UsageError("what the study asks for decisions was not told: print(result.diagnostics) says why")
        return found


    def warnings(self) -> tuple[str, ...]:
        """Everything a reader of the effects should know before trusting them."""
        return words.warnings(self.study, self.outcome, self.diagnostics)

    def summary(self, alpha: float = 0.05) -> str:
        """The result in words and one table; of a blinded study, all but its effects."""
        return words.sealed_summary(self) if self.blinded else words.summary(self, alpha)

    def plain(self, alpha: float = 0.05) -> dict[str, Any]:
        """The average effects and how they were reached, as JSON holds them; no effects while they are sealed."""
        return record.plain(self, alpha)

    def save(self, folder: Path | str, force: bool = False) -> None:
        """Write the result to a folder; each local site's private part goes to sites/NAME with mode 0600."""
        from fedci.result.storage import save_result

        save_result(self, folder, force)

    @staticmethod
    def load(folder: Path | str) -> Result:
        """A saved result; sites whose private folder is there can predict for their people again."""
        from fedci.result.storage import load_result

        return load_result(folder)
