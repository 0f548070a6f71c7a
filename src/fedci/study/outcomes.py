"""The outcome as a study names it: a number, 0 and 1, a time to an event, a count; which keys each type has.

    "ldl_change"                                                                   a number
    { name = "died", type = "binary" }                                             1 where it happened, 0 where not
    { time = "days", event = "died", type = "survival", horizons = [30, 180] }     followed for so long; 1: it happened
    { name = "falls", type = "count", exposure = "years" }                         how often, in how long
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from fedci.errors import StudyError
from fedci.study.options import nearest

OutcomeType = Literal["numeric", "binary", "survival", "count"]
TYPES: tuple[str, ...] = get_args(OutcomeType)
KEYS = {"numeric": ("name", "type"), "binary": ("name", "type"), "count": ("name", "type", "exposure"),
        "survival": ("time", "event", "type", "horizons", "cuts")}
OF_TYPES = ("outcome_type", "time", "horizons", "cuts", "exposure")
"""The fields of a study that a file writes into `outcome = { … }`."""
INTERVALS = 8
"""Of a time to an event, where the study names no cuts: at most, and about equally many events in each."""
MOST_CUTS = 32


def fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a study from `outcome = { … }`."""
    kind = given.get("type", "numeric")
    if kind not in TYPES:
        raise StudyError(f"outcome.type = {kind!r} is unknown{nearest(str(kind), TYPES)}; known: {', '.join(TYPES)}")
    if other := sorted(set(given) - set(KEYS[kind])):
        raise StudyError(f"outcome: unknown key {other[0]!r}{nearest(other[0], KEYS[kind])}; a {kind} outcome has "
                         f"{', '.join(KEYS[kind])}")
    for key in ("time", "event", "horizons") if kind == "survival" else ("name",):
        if key not in given:
            raise StudyError(f"outcome: the key {key!r} is missing: {MEANINGS[key]}")
    column = given["event"] if kind == "survival" else given["name"]
    more = {key: given[key] for key in ("time", "horizons", "cuts", "exposure") if key in given}
    return {"outcome": column, "outcome_type": kind, **more}


MEANINGS = {"name": "the column that holds the outcome", "time": "the column that says how long a person was followed",
            "event": "the column of 1 (the event ended it) and 0 (it did not)",
            "horizons": "the times at which survival is compared, such as [30, 180]"}


def written(outcome: str, kind: str, time: str | None, horizons: tuple[float, ...], cuts: tuple[float, ...],
            exposure: str | None) -> dict[str, Any]:
    """`outcome = { … }` of a study file; not of a number, which is its column's name."""
    if kind == "survival":
        return {"time": time, "event": outcome, "type": kind, "horizons": list(horizons),
                **({"cuts": list(cuts)} if cuts else {})}
    return {"name": outcome, "type": kind, **({"exposure": exposure} if exposure else {})}


def check(kind: str, time: str | None, horizons: tuple[float, ...], cuts: tuple[float, ...],
          exposure: str | None, control: str | None) -> None:
    """StudyError where the keys do not go with the type, or with each other."""
    if kind != "count" and exposure is not None:
        raise StudyError(f"outcome.exposure is of counts, and the outcome is {kind}. Remove it")
    if kind != "survival":
        if time is not None or horizons or cuts:
            raise StudyError(f"outcome: time, horizons and cuts are of type = \"survival\", and the outcome is {kind}")
        return
    if time is None or not horizons:
        raise StudyError("outcome: a time to an event needs time, event and horizons")
    for name, values in (("horizons", horizons), ("cuts", cuts)):
        if any(not (math.isfinite(value) and value > 0) for value in values) or list(values) != sorted(set(values)):
            raise StudyError(f"outcome.{name}: needs times above 0, each later than the one before")
    if cuts and cuts[-1] != horizons[-1]:
        raise StudyError(f"outcome.cuts ends at {cuts[-1]:g}, and the last horizon is {horizons[-1]:g}: the last "
                         f"interval ends there. Add it, or remove what lies beyond")
    if len(cuts) > MOST_CUTS or len(horizons) > INTERVALS:
        raise StudyError(f"outcome: at most {INTERVALS} horizons and {MOST_CUTS} cuts")
    if control is not None:
        raise StudyError("diagnostics.negative_control: a time to an event would need a time of its own. Remove it")


def most_intervals(kind: str, horizons: tuple[float, ...], cuts: tuple[float, ...]) -> int:
    """J, at most; fewer where sparse ones are merged. 0 where there are none."""
    return (len(cuts) or max(INTERVALS, len(horizons))) if kind == "survival" else 0
