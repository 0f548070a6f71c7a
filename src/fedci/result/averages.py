"""Tables of average effects, a row for each group and site: from the sums over their people, by site (`ALL`: together).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedci.effect import POPULATIONS, EffectSums, Population, Rates, Risks
from fedci.result.curves import Survival
from fedci.site.people import Pair

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
"""What tables call all sites together."""
EachSums = Mapping[str, EffectSums]
"""Site, or `ALL` → its sums."""


def of_effects(each: EachSums, alpha: float) -> pd.DataFrame:
    """ATE, ATT and ATC."""
    import pandas as pd

    rows = [_row(sums, population, alpha) | {"site": site} for site, sums, population in _groups(each)]
    return pd.DataFrame(rows, columns=["estimand", "site", "people", "mean", "sd", "low", "high"])


def of_risks(each: EachSums, alpha: float) -> pd.DataFrame:
    return _over(each, lambda sums, population: risk_columns(sums.risks(population), alpha))


def of_rates(each: EachSums, alpha: float) -> pd.DataFrame:
    return _over(each, lambda sums, population: rate_columns(sums.rates(population), alpha))


def of_survival(each: EachSums, timing: np.ndarray, horizons: Sequence[float], alpha: float) -> pd.DataFrame:
    """At the end of each interval and at each horizon."""
    import pandas as pd

    rows = []
    for site, sums, population in _groups(each):
        arms = sums.curves(population.name)
        curves = Survival(timing, arms[:, 0], arms[:, 1])
        rows += [{"over": population.name, "site": site, "people": sums.people(population.name), "time": time,
                  **_survival_columns(curves, time, alpha)} for time in sorted({*curves.times.tolist(), *horizons})]
    return pd.DataFrame(rows)


def of_arms(each: EachSums, names: Sequence[str], centre: float, alpha: float) -> pd.DataFrame:
    """What is expected in each arm, over everybody and over who got each; `each`: sums of all arms, about `centre`."""
    import pandas as pd

    rows = []
    for site, sums in each.items():
        people = np.sum([part["people"] for part in sums.parts], 0)
        for place, over in enumerate((ALL, *names)):
            for arm, name in enumerate(names if people[place] else ()):
                effect = sums.in_arm(arm, place)
                low, high = effect.interval(alpha)
                rows.append({"arm": name, "over": over, "site": site, "people": int(people[place]),
                             "mean": centre + effect.mean, "sd": effect.sd, "low": centre + low, "high": centre + high})
    return pd.DataFrame(rows)


def by_contrast(tables: Mapping[Pair, pd.DataFrame], names: Sequence[str]) -> pd.DataFrame:
    """One below the other, with the columns arm and against."""
    import pandas as pd

    parts = []
    for (against, arm), part in tables.items():
        part.insert(0, "against", names[against])
        part.insert(0, "arm", names[arm])
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _groups(each: EachSums) -> Iterator[tuple[str, EffectSums, Population]]:
    """Those with anybody in them."""
    return ((site, sums, population) for site, sums in each.items() for population in POPULATIONS
            if sums.people(population.name))


def _over(each: EachSums, columns: Callable[[EffectSums, str], dict[str, float]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([{"over": population.name, "site": site, "people": sums.people(population.name),
                          **columns(sums, population.name)} for site, sums, population in _groups(each)])


def _row(sums: EffectSums, population: Population, alpha: float) -> dict[str, Any]:
    effect = sums.expected(population.name)
    low, high = effect.interval(alpha)
    return {"estimand": population.estimand, "people": sums.people(population.name), "mean": effect.mean,
            "sd": effect.sd, "low": low, "high": high}


def risk_columns(risks: Risks, alpha: float) -> dict[str, float]:
    parts = {"risk_untreated": risks.of_untreated, "risk_treated": risks.of_treated, "difference": risks.difference,
             "ratio": risks.ratio, "odds_ratio": risks.odds_ratio}
    columns: dict[str, float] = {}
    for name, effect in parts.items():
        middle = effect.quantile(0.5) if "ratio" in name else effect.mean
        columns |= dict(zip((name, f"{name}_low", f"{name}_high"), (middle, *effect.interval(alpha)), strict=True))
    needed = risks.number_needed(alpha) or (np.nan,) * 3
    return columns | dict(zip(("needed", "needed_low", "needed_high"), needed, strict=True))


def _survival_columns(curves: Survival, time: float, alpha: float) -> dict[str, float]:
    risks, means = curves.risks(time), curves.rmst(time)
    parts = {"survival_untreated": Risks(risks.untreated, 1.0 - risks.untreated).of_treated,
             "survival_treated": Risks(risks.treated, 1.0 - risks.treated).of_treated,
             "difference": curves.difference(time), "rmst_untreated": means.of_untreated,
             "rmst_treated": means.of_treated, "rmst_difference": means.difference}
    columns: dict[str, float] = {}
    for name, effect in parts.items():
        columns |= dict(zip((name, f"{name}_low", f"{name}_high"), (effect.mean, *effect.interval(alpha)), strict=True))
    return columns


def rate_columns(rates: Rates, alpha: float) -> dict[str, float]:
    parts = {"rate_untreated": rates.of_untreated, "rate_treated": rates.of_treated, "difference": rates.difference,
             "ratio": rates.ratio}
    columns: dict[str, float] = {}
    for name, effect in parts.items():
        middle = effect.quantile(0.5) if name == "ratio" else effect.mean
        columns |= dict(zip((name, f"{name}_low", f"{name}_high"), (middle, *effect.interval(alpha)), strict=True))
    return columns
