"""Effects of a site's own people, a row each, and bounds of one person's under hidden confounding; they stay there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedci.coordinator.coordinator import Outcome
from fedci.diagnostics.sensitivity import half_width
from fedci.effect import Effect
from fedci.errors import UsageError
from fedci.site.people import People
from fedci.study.study import Study
from fedci.table.design import design_from

if TYPE_CHECKING:
    import pandas as pd


def people_effects(people: People, noise_correlation: float | None = None, alpha: float = 0.05,
                   arms: Sequence[str] = ()) -> pd.DataFrame:
    """`Result.ite`, where a site's people are all there is of the result. Of more than two `arms`, expected effects of
    each against the reference."""
    import pandas as pd

    check_correlation(noise_correlation)
    if arms:
        parts = {f"cate {name}": people.cate(pair=(0, place)) for place, name in enumerate(arms) if place}
    elif people.ready.model.outcome != "numeric":
        risks, name = people.risks(), "rate" if people.ready.model.outcome == "count" else "risk"
        parts = {"cate": risks.difference, f"{name}_untreated": risks.of_untreated, f"{name}_treated": risks.of_treated}
    else:
        parts = {"cate": people.cate(), "ite": people.ite(noise_correlation)}
    return pd.DataFrame({key: value for name, effect in parts.items()
                         for key, value in _columns(name, effect, alpha).items()},
                        index=pd.Index(people.rows, name="row"))


def _columns(name: str, effect: Effect, alpha: float) -> dict[str, np.ndarray]:
    low, high = effect.interval(alpha)
    return {name: effect.mean, f"{name}_sd": effect.sd, f"{name}_low": low, f"{name}_high": high}


def check_correlation(value: float | None) -> None:
    if value is not None and not -1.0 < value < 1.0:
        raise UsageError(f"noise_correlation = {value} is outside (−1, 1)")


def half_widths(study: Study, outcome: Outcome, X: Any, site: str, strength: float) -> np.ndarray:
    """[p] how far the effect of each row of X may lie from its mean at such a Λ (`diagnostics.sensitivity`)."""
    known = outcome.diagnostics
    if (known is None or known.overlap is None or known.sensitivity is None
            or known.sensitivity.noise_sd is None or site in known.overlap.withheld):
        raise UsageError("the bounds need the propensity model, which this result lacks: run the study with "
                         "diagnostics")
    x, missing = design_from(study, X, site)
    e = known.overlap.propensity(np.hstack([x, missing[:, outcome.layout.indicators]]), site)
    return half_width(e, known.sensitivity.noise_sd, strength)
