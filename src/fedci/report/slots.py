"""The report's slots for diagnostics: plain data that another part of fedci, or a user, puts into the result's folder.

    RESULT/diagnostics.json     any of the keys below; a key that is not there is a section that says so
                                "run": the run they belong to, if they say so; those of another are not shown

Numbers are taken as they are; a slot that does not have its shape is left out with the reason, and the rest is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedci.bounded import json_file
from fedci.errors import OutputError
from fedci.report import from_diagnostics

FILE = "diagnostics.json"
MAX_BYTES = 32 * 2**20
Number = Annotated[float, Field(allow_inf_nan=False)]
Words = Annotated[str, Field(max_length=500)]


class _Slot(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Interval(_Slot):
    """A named estimate: of a site, or with a site left out."""

    site: Words
    mean: Number
    low: Number
    high: Number


class Balance(_Slot):
    """Standardised mean differences of a covariate, before and after adjustment."""

    covariate: Words
    before: Number
    after: Number | None = None


class Overlap(_Slot):
    """A histogram of the preference score: edges [k + 1], shares or counts of treated and of untreated [k]; null: few
    people, hidden."""

    edges: list[Number] = Field(min_length=2)
    treated: list[Number | None]
    control: list[Number | None]


class Heterogeneity(_Slot):
    sites: list[Interval] = []
    leave_one_out: list[Interval] = []
    figures: dict[str, Number] = {}
    """Named numbers, such as τ and I²."""


class Curve(_Slot):
    """How the answer moves with an assumption."""

    name: Words
    x_label: Words = ""
    x: list[Number]
    mean: list[Number]
    low: list[Number] | None = None
    high: list[Number] | None = None


class Refuter(_Slot):
    """A test that should fail to find an effect, or find the same: what came of it."""

    name: Words
    estimate: Number
    low: Number | None = None
    high: Number | None = None
    expected: Words = ""
    verdict: Words = ""
    """fine, look, problem or unknown."""


class Bin(_Slot):
    """Of a calibration: what was expected, and what was seen in so many people."""

    expected: Number
    observed: Number
    count: int | None = None


class Said(_Slot):
    """What a diagnostic says, in words."""

    name: Words
    verdict: Words
    words: Annotated[str, Field(max_length=3000)]


Note = Annotated[str, Field(max_length=3000)]
KINDS: dict[str, Any] = {"balance": list[Balance], "overlap": Overlap, "heterogeneity": Heterogeneity,
                         "sensitivity": list[Curve], "refuters": list[Refuter], "calibration": list[Bin],
                         "verdicts": dict[str, list[Said]], "notes": list[Note]}


class Slots(BaseModel):
    """All slots; None: not there."""

    balance: list[Balance] | None = None
    overlap: Overlap | None = None
    heterogeneity: Heterogeneity | None = None
    sensitivity: list[Curve] | None = None
    refuters: list[Refuter] | None = None
    calibration: list[Bin] | None = None
    verdicts: dict[str, list[Said]] | None = None
    """Section (balance, overlap, fit, heterogeneity, sensitivity, refuters) → what was found, in words."""
    notes: list[Note] | None = None
    """What could not be made, and why."""
    problems: dict[str, str] = {}
    """Slot → why it could not be shown."""


def read_slots(folder: Path, run: str) -> Slots:
    """The slots of a result's folder; each one that has its shape. Diagnostics that name another run are not shown."""
    path = folder / FILE
    if not path.exists():
        return Slots()
    try:
        if path.stat().st_size > MAX_BYTES:
            raise OutputError(f"'{path}' is larger than {MAX_BYTES} bytes: is it diagnostics?")
        record = json_file(path)
    except (OSError, ValueError):
        raise OutputError(f"'{path}' is not JSON. Remove it, or make the diagnostics again") from None
    record = record if isinstance(record, dict) else {}
    if record.get("run", run) != run:
        return Slots(problems=dict.fromkeys(KINDS, "they are those of another run; make them again"))
    return slots_from(record)


def slots_from(record: dict[str, Any]) -> Slots:
    """From the slots as they stand, or from the record of diagnostics that a study saves."""
    record = from_diagnostics.slots_of(record) if from_diagnostics.is_record(record) else record
    shown, problems = {}, {}
    for name in KINDS:
        if name in record:
            try:
                shown[name] = getattr(Slots.model_validate({name: record[name]}), name)
            except ValidationError as problem:
                problems[name] = _reason(problem)
    slots = Slots(**shown, problems=problems)
    return _aligned(slots)


def _reason(problem: ValidationError) -> str:
    first = problem.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _aligned(slots: Slots) -> Slots:
    """Lists that belong together must have one length."""
    changes: dict[str, Any] = {}
    overlap = slots.overlap
    if overlap and not len(overlap.edges) - 1 == len(overlap.treated) == len(overlap.control):
        changes["overlap"], slots.problems["overlap"] = None, "edges must be one more than treated and control"
    for curve in slots.sensitivity or ():
        if any(part is not None and len(part) != len(curve.x) for part in (curve.mean, curve.low, curve.high)):
            changes["sensitivity"], slots.problems["sensitivity"] = None, "x, mean, low and high must have one length"
    return slots.model_copy(update=changes)
