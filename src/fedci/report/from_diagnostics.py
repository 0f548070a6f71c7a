"""From the diagnostics that a study saves (`diagnostics.json`, format 1) to the report's slots.

Reads plain JSON, so that a report needs no more than the file; what a site withheld is null in it, and left out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from fedci.report.svg import number

SECTIONS = ("balance", "overlap", "fit", "heterogeneity", "sameness", "sensitivity", "refuters")
WITH = {"balance": ("missingness", "trial"), "fit": ("follow_up", "plausibility"), "refuters": ("systematic",)}
"""Section → parts of the record whose verdicts stand in it too."""


def is_record(record: Mapping[str, Any]) -> bool:
    """Whether these are a study's diagnostics rather than slots as they stand."""
    return "format" in record and "notes" in record


def slots_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """Slots by name; a part that is not as expected is left to the slots' own check."""
    made: dict[str, Callable[[Any], Any]] = {
        "balance": _balance, "overlap": _overlap, "heterogeneity": _heterogeneity, "sensitivity": _sensitivity,
        "refuters": _refuters, "calibration": _calibration}
    slots: dict[str, Any] = {}
    for name, make in made.items():
        part = record.get("fit" if name == "calibration" else name)
        if part:
            slots[name] = _tried(make, part)
    slots = {name: slot for name, slot in slots.items() if slot}
    notes = record["notes"]
    slots["notes"] = [_cut(text) for text in notes] if isinstance(notes, list) else notes
    said = {name: rows for name in SECTIONS if (rows := [row for part in (name, *WITH.get(name, ()))
                                                         for row in _verdicts(record.get(part))])}
    return slots | {"verdicts": said}


def _tried(make: Callable[[Any], Any], part: Any) -> Any:
    try:
        return make(part)
    except (KeyError, TypeError, AttributeError, ValueError):
        return {"": "not in the expected form"}  # refused by the slot, with a reason


def _verdicts(part: Any) -> list[dict[str, Any]]:
    """{name, verdict, words} of a section."""
    rows = [entry.get("verdict") for entry in part] if isinstance(part, list) else (part or {}).get("verdicts", [])
    return [{key: _cut(row[key]) for key in ("name", "verdict", "words")} for row in rows
            if isinstance(row, dict) and {"name", "verdict", "words"} <= row.keys()]


def _cut(text: Any, most: int = 2000) -> Any:
    """No longer than a slot takes; what is no text is left to the slot."""
    return text if not isinstance(text, str) or len(text) <= most else f"{text[:most]} …"


def _balance(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"covariate": row["column"], "before": row["before"], "after": row["after"]} for row in part["columns"]
            if row["before"] is not None]


def _overlap(part: Mapping[str, Any]) -> dict[str, Any]:
    bins = part["histogram"]
    return {"edges": part["edges"], "treated": list(bins["treated"]), "control": list(bins["untreated"])}


def _heterogeneity(part: Mapping[str, Any]) -> dict[str, Any]:
    figures = {"Q": part["q"], "p of Q": part["p"], "I²": part["i2"], "average over sites": part["random"]["mean"],
               "τ², variance between sites": part["tau2_reml"], "τ, sd between sites": math.sqrt(part["tau2_reml"])}
    if part.get("shrinkage") is not None:
        figures["share of the sites' spread that the model takes for chance"] = part["shrinkage"]
    if part.get("prediction"):
        figures |= {"a new site, from": part["prediction"][0], "a new site, to": part["prediction"][1]}
    rows = [{"site": name, **_ends(effect)} for row in part["sites"]
            for name, effect in ((row["site"], row["own"]), ("– by the model", row.get("model"))) if effect]
    return {"sites": rows,
            "leave_one_out": [{"site": f"without {row['site']}", **_ends(row["estimate"])} for row in part["left_out"]],
            "figures": figures}


def _ends(effect: Mapping[str, Any]) -> dict[str, Any]:
    return {key: effect[key] for key in ("mean", "low", "high")}


def _sensitivity(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    bounds = [{"strength": 1.0, "interval_low": part["low"], "interval_high": part["high"]}, *part["bounds"]]
    bounds = sorted({row["strength"]: row for row in bounds}.values(), key=lambda row: row["strength"])
    curves = [{"name": "Bounds of the average effect if a hidden confounder is at most of strength Λ", "x_label": "Λ",
               "x": [row["strength"] for row in bounds], "mean": [part["effect"]] * len(bounds),
               "low": [row["interval_low"] for row in bounds], "high": [row["interval_high"] for row in bounds]}]
    people = [(row["strength"], max(row["cate_half"])) for row in part["bounds"] if row["cate_half"]]
    if people:
        strengths, halves = zip(*people, strict=True)
        curves.append({"name": "By how much it may at most move the expected effect of one person (CATE)",
                       "x_label": "Λ", "x": list(strengths), "mean": [0.0] * len(people),
                       "low": [-half for half in halves], "high": list(halves)})
    return curves


def _refuters(part: list[Any]) -> list[dict[str, Any]]:
    return [{"name": row["name"], "estimate": row["estimate"]["mean"], "low": row["estimate"]["low"],
             "high": row["estimate"]["high"], "expected": number(row["reference"]),
             "verdict": row["verdict"]["verdict"]} for row in part if row["estimate"] is not None]


def _calibration(part: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"expected": row["predicted"], "observed": row["observed"], "count": row["people"]}
            for row in part["calibration"]]
