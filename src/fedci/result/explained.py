"""What carries the outcome and the effect, in the study's names: the parts of the model, and abrupt changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedci.coordinator.coordinator import Outcome
from fedci.effect import check_alpha
from fedci.site.people import Pair
from fedci.study.study import Study
from fedci.table.design import design_columns

if TYPE_CHECKING:
    import pandas as pd


def drivers(study: Study, outcome: Outcome, pair: Pair | None, strongest: int) -> pd.DataFrame | None:
    """`Result.drivers`."""
    import pandas as pd

    layout = outcome.layout
    parts = layout.model.driver_parts
    if not parts:
        return None
    carried = layout.model.drivers(layout.model.draws_at(outcome.effects.draws, 0), pair)
    columns = design_columns(study)[0]
    marked = () if study.completes else layout.indicators
    in_time = ["time"] if study.outcome_type == "survival" else []
    names = [*columns, *(f"{columns[i]} missing" for i in marked), *in_time]
    largest = [", ".join(f"{names[c]} {weights[c]:{'+' if part.along else ''}.2f}"
                         for c in np.argsort(-np.abs(weights))[:strongest])
               if part.weights else "" for part, weights in zip(parts, carried.weights.T, strict=True)]
    return pd.DataFrame({"part": [part.name for part in parts], "outcome": carried.shares[0],
                         "effect": carried.shares[1], "covariates": largest})


def thresholds(study: Study, outcome: Outcome, pair: Pair | None, alpha: float) -> pd.DataFrame | None:
    """`Result.thresholds`."""
    import pandas as pd

    if study.outcome_type != "numeric":  # its limits are in standard deviations of the outcome, and were measured there
        return None
    layout = outcome.layout
    names, kinds = design_columns(study)
    columns = [c for c, kind in enumerate(kinds) if kind == "numeric" and not layout.withheld[c]]
    draws = layout.model.draws_at(outcome.effects.draws, 0)
    found = layout.model.thresholds(draws, columns, check_alpha(alpha), pair)
    if found is None:
        return None
    means, sds, _, y_sd = layout.scales
    rows = [(one.of, names[one.column], *one.place.scaled(sds[one.column], means[one.column]),
             *one.change.scaled(y_sd), one.probability) for one in found]
    return pd.DataFrame(rows, columns=["of", "covariate", "place", "place_low", "place_high",
                                       "change", "change_low", "change_high", "probability"])
