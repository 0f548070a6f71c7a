"""A result as JSON holds it: the average effects and how they were reached; no effects while they are sealed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedci.result.deciding import deciding_of

if TYPE_CHECKING:
    import pandas as pd

    from fedci.result.result import Result


def plain(result: Result, alpha: float) -> dict[str, Any]:
    tables = {"risks": (result.of_risks, result.risk_table), "survival": (result.of_times, result.survival_table),
              "rates": (result.of_rates, result.rate_table)}
    risks = {name: None if result.blinded else _without_nan(table(alpha))
             for name, (has, table) in tables.items() if has}
    return {"study": result.study.name, "treatment": result.study.treatment, "outcome": result.study.outcome,
            "outcome_type": result.study.outcome_type,
            "run": result.outcome.run, "seed": result.outcome.seed, "verdict": result.verdict,
            "rounds": len(result.outcome.fit.rounds), "alpha": alpha, "blinded": result.blinded,
            "degenerate": result.degenerate,
            "effects": None if result.blinded else result.table(alpha).to_dict("records"), **risks,
            **({"arms": list(result.study.arms),
                "arm_table": None if result.blinded else result.arm_table(alpha).to_dict("records")}
               if result.many else {}),
            **_subgroups(result, alpha), **_trial(result),
            **_decisions(result, alpha),
            "warnings": list(result.warnings())}


def _trial(result: Result) -> dict[str, Any]:
    """Of a randomised study: the difference of its arms without a model."""
    if not result.study.design.randomised:
        return {}
    found = result.diagnostics.trial if result.diagnostics is not None else None
    return {"trial": None if found is None else found.model_dump(exclude={"verdicts"})}


def _decisions(result: Result, alpha: float) -> dict[str, Any]:
    """Of a study that asks for them."""
    if result.study.decisions is None:
        return {}
    found = None if result.blinded else deciding_of(result.study, result.outcome)
    return {"decisions": None if found is None else found.plain(alpha)}


def _subgroups(result: Result, alpha: float) -> dict[str, Any]:
    """Of a study that names some."""
    if not result.study.subgroups:
        return {}
    if result.blinded or not result.outcome.effects.subgroups:
        return {"subgroups": None, "contrasts": None}
    return {"subgroups": _without_nan(result.subgroups(alpha)), "contrasts": _without_nan(result.contrasts(alpha))}


def _without_nan(table: pd.DataFrame) -> list[dict[str, Any]]:
    """As JSON holds it: None where there is no number."""
    return [{name: None if isinstance(value, float) and np.isnan(value) else value for name, value in row.items()}
            for row in table.to_dict("records")]
