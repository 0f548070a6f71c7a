"""`fedci compare`: two results beside each other, such as a study with and without one site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    pairs: tuple[Pair, ...]
    settings: dict[str, tuple[Any, Any]]
    """What differs between the two."""
    agreed: tuple[str, ...]
    """What does not."""

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
    return Comparison(pairs, differ, tuple(name for name in names if name not in differ))


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
