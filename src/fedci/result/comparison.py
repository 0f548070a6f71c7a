"""`fedci compare`: two results beside each other, such as a study with and without one site."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedci.effect import POPULATIONS
from fedci.plain import Shown, named
from fedci.result.result import Result


@dataclass(frozen=True)
class Pair:
    """One average effect in both results; none where a result lacks it."""

    estimand: str
    site: str
    first: dict[str, float] | None
    second: dict[str, float] | None

    @property
    def difference(self) -> float | None:
        """Second minus first."""
        return self.second["mean"] - self.first["mean"] if self.first and self.second else None

    @property
    def in_sds(self) -> float | None:
        """The difference in units of the larger standard deviation. The two share data, so no test is made of it."""
        if self.difference is None or not (self.first and self.second):
            return None
        return self.difference / max(self.first["sd"], self.second["sd"])


@dataclass(frozen=True)
class Cohorts:
    """Who is in the second study and not in the first, and the other way round; and how far the answer should move by
    that alone."""

    joined: tuple[str, ...]
    left: tuple[str, ...]
    people: tuple[int, int]
    moved: float | None
    """Of the average effect over everybody, second minus first."""
    expected_sd: float | None
    """sd of that where the study with more people asks the same and its people are alike: √(sd₁² − sd₂²), by which more
    data move a posterior mean. None where neither cohort holds the other."""

    @property
    def in_expected(self) -> float | None:
        return self.moved / self.expected_sd if self.moved is not None and self.expected_sd else None

    def in_words(self) -> str:
        who = "; ".join(f"{word}: {', '.join(sites)}" for word, sites in (("joined", self.joined), ("left", self.left))
                        if sites)
        told = f"Sites that {who}. People: {self.people[0]:,}, then {self.people[1]:,}."
        if self.moved is None:
            return told
        told += f" The average effect moved by {self.moved:.4g}"
        if self.in_expected is None:
            return f"{told}."
        far = ("within what more people bring" if abs(self.in_expected) <= 2 else
               "further than more people of the same kind would bring: look at that site's own effect, balance and "
               "coding")
        return (f"{told}, {abs(self.in_expected):.1f} of the standard deviations to expect ({self.expected_sd:.3g}): "
                f"{far}.")


@dataclass(frozen=True, repr=False, kw_only=True)
class Comparison(Shown):
    pairs: tuple[Pair, ...]
    settings: dict[str, tuple[Any, Any]]
    """What differs between the two."""
    agreed: tuple[str, ...]
    """What does not."""
    cohorts: Cohorts | None = None
    """None: the same sites."""

    def shown(self) -> str:
        differ = f"; settings differ: {named(self.settings)}" if self.settings else "; all settings agree"
        return f"Comparison of two results: {len(self.pairs)} averages{differ}; .plain() has all of it"

    @property
    def same_question(self) -> bool:
        return not {"treatment", "arms", "outcome", "outcome_type", "horizons", "exposure"} & self.settings.keys()

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"same_question": self.same_question, "agreed": list(self.agreed),
                "settings": {name: {"first": a, "second": b} for name, (a, b) in self.settings.items()},
                "cohorts": None if self.cohorts is None else asdict(self.cohorts) | {
                    "in_expected": self.cohorts.in_expected, "words": self.cohorts.in_words()},
                "effects": [{"estimand": p.estimand, "site": p.site, "first": p.first, "second": p.second,
                             "difference": p.difference, "in_sds": p.in_sds} for p in self.pairs]}


def compare(first: Result, second: Result, alpha: float = 0.05) -> Comparison:
    """Average effects of both, over all people and at each site, and which settings differ."""
    tables = [_rows(result, alpha) for result in (first, second)]
    keys = [key for key in (*tables[0], *tables[1])]
    pairs = tuple(Pair(*key, tables[0].get(key), tables[1].get(key)) for key in sorted(dict.fromkeys(keys), key=_order))
    settings = [_settings(result) for result in (first, second)]
    names = dict.fromkeys([*settings[0], *settings[1]])
    both = {name: (settings[0].get(name), settings[1].get(name)) for name in names}
    differ = {name: (a, b) for name, (a, b) in both.items() if a != b}
    return Comparison(pairs=pairs, settings=differ, agreed=tuple(name for name in names if name not in differ),
                      cohorts=_cohorts(first, second, pairs[0] if pairs else None))


def _cohorts(first: Result, second: Result, everybody: Pair | None) -> Cohorts | None:
    before, after = set(first.sites), set(second.sites)
    if before == after:
        return None
    sd = None
    if everybody is not None and everybody.first and everybody.second and (before < after or after < before):
        fewer, more = (everybody.first["sd"], everybody.second["sd"]) if before < after else (
            everybody.second["sd"], everybody.first["sd"])
        sd = float(np.sqrt(fewer**2 - more**2)) if fewer > more else None
    return Cohorts(joined=tuple(sorted(after - before)), left=tuple(sorted(before - after)),
                   people=(first.outcome.layout.rows, second.outcome.layout.rows),
                   moved=everybody.difference if everybody is not None else None, expected_sd=sd)


def _order(key: tuple[str, str]) -> tuple[str, int, bool, str]:
    estimand, _, contrast = key[0].partition(" of ")
    return contrast, [population.estimand for population in POPULATIONS].index(estimand), key[1] != "all", key[1]


def _rows(result: Result, alpha: float) -> dict[tuple[str, str], dict[str, float]]:
    def named(row: Any) -> str:
        """Of more than two arms with its contrast."""
        return f"{row.estimand} of {row.arm} vs {row.against}" if result.many else row.estimand

    return {(named(row), row.site): {"people": int(row.people), "mean": float(row.mean), "sd": float(row.sd),
                                       "low": float(row.low), "high": float(row.high)}
            for row in result.table(alpha).itertuples()}


def _settings(result: Result) -> dict[str, Any]:
    study, outcome = result.study, result.outcome
    parts = {"policy": study.policy, "model": outcome.options.model, "optimiser": outcome.options.optimiser,
             "prediction": outcome.options.prediction}
    return {"study": study.name, "treatment": study.treatment, "outcome": study.outcome,
            "outcome_type": study.outcome_type, "horizons": list(study.horizons), "exposure": study.exposure,
            **({"arms": list(study.arms)} if study.arms else {}),
            "covariates": [covariate.name for covariate in study.covariates], "sites": list(result.sites),
            "people": outcome.layout.rows,
            **{f"{part}.{key}": value for part, options in parts.items()
               for key, value in options.model_dump(mode="json").items()},
            "linkage": study.links,
            "seed": outcome.seed, "verdict": result.verdict, "fedci": result.versions.get("fedci")}
