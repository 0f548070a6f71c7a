"""All diagnostics of a study: plain data that a report is made from, saved as JSON, read again without JAX or a site.

    record = Diagnostics.read("result/diagnostics.json")
    print(record)                       # sentences with verdicts
    record.balance.columns[0].after     # numbers, documented field by field in their modules
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from fedci.bounded import text_file
from fedci.diagnostics.balance import Balance
from fedci.diagnostics.described import Described
from fedci.diagnostics.fit import Fitting
from fedci.diagnostics.follow_up import FollowUp
from fedci.diagnostics.heterogeneity import Heterogeneity
from fedci.diagnostics.missingness import Missingness
from fedci.diagnostics.overlap import Overlap
from fedci.diagnostics.plausibility import Plausibility
from fedci.diagnostics.refuters import Refuter
from fedci.diagnostics.sameness import Sameness
from fedci.diagnostics.sensitivity import Sensitivity
from fedci.diagnostics.systematic import Calibration
from fedci.diagnostics.trial import Trial
from fedci.diagnostics.verdict import FINE, LOOK, PROBLEM, UNKNOWN, Plain, Verdict
from fedci.errors import OutputError

FORMAT = 1
TITLES = {"balance": "Balance", "overlap": "Overlap", "missingness": "Missing values", "follow_up": "Follow-up",
          "fit": "Fit", "plausibility": "Plausibility", "heterogeneity": "Heterogeneity",
          "sameness": "Same effect for all", "trial": "The lot", "sensitivity": "Sensitivity", "refuters": "Refuters",
          "systematic": "Negative controls"}
"""In the order in which they are read: what is known before the effects comes first."""
SEALED = ("follow_up", "heterogeneity", "sameness", "trial", "sensitivity", "systematic")
"""Sections that tell the effect."""


class Diagnostics(Plain):
    """What a study says of its own effects, section by section; `print` shows the verdicts in words."""

    format: Annotated[int, Field(ge=0, lt=10**6)] = FORMAT
    described: Described | None = None
    """Table 1, and the outcome unadjusted. None: of a version without it."""
    balance: Balance | None = None
    overlap: Overlap | None = None
    missingness: Missingness | None = None
    """None: nothing may be missing in the study, or of a version without it."""
    follow_up: FollowUp | None = None
    """Who is followed until when. None: no time to an event, blinded, or of a version without it."""
    fit: Fitting | None = None
    plausibility: Plausibility | None = None
    """None: of a version without it, or it could not be computed."""
    heterogeneity: Heterogeneity | None = None
    """None: one site, or blinded."""
    sameness: Sameness | None = None
    """How probable it is that the effect is the same for everybody. None: no site tells, or blinded."""
    trial: Trial | None = None
    """The plain difference of a randomised study. None: it is not randomised, or blinded."""
    sensitivity: Sensitivity | None = None
    """None: blinded."""
    refuters: tuple[Refuter, ...] = ()
    """Empty unless the study asks for them."""
    systematic: Calibration | None = None
    """Of a study with many negative controls. None: of another, or blinded."""
    notes: tuple[str, ...] = ()
    """What was withheld or not run, and why."""
    blinded: bool = False
    """Whether the sections that tell the effect were taken out."""

    def section(self, name: str) -> tuple[Verdict, ...]:
        """The verdicts of one section of TITLES."""
        part = getattr(self, name)
        if name == "refuters":
            return tuple(row.verdict for row in part)
        return part.verdicts if part is not None else ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(verdict for name in TITLES for verdict in self.section(name))

    @property
    def problems(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.verdict == PROBLEM)

    def sealed(self) -> Diagnostics:
        """Without anything that tells the effect: what a blinded study shows."""
        rows = tuple(row.model_copy(update={"estimate": None, "reference": None}) for row in self.refuters)
        plausible = self.plausibility.sealed() if self.plausibility is not None else None
        described = self.described.sealed() if self.described is not None else None
        return self.model_copy(update=dict.fromkeys(SEALED) | {"refuters": rows, "plausibility": plausible,
                                                               "described": described, "blinded": True})

    def __repr__(self) -> str:
        """The headline and what is a problem; `print` has all of it."""
        return "\n".join([self.headline(), *(f"  {row.verdict} {row.name}: {row.words}" for row in self.problems[:5]),
                          "print(diagnostics) has all of it"])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        lines = [self.headline()]
        for name, title in TITLES.items():
            verdicts = self.section(name)
            if verdicts:
                lines += ["", title, *(f"  {row.verdict:<8} {row.name}: {row.words}" for row in verdicts)]
        if self.blinded:
            lines += ["", "Blinded: what tells the effect (heterogeneity, sensitivity, …) is shown once it is opened."]
        return "\n".join([*lines, *(["", *(f"note: {text}" for text in self.notes)] if self.notes else [])])

    def headline(self) -> str:
        """How many verdicts of each kind."""
        words = [verdict.verdict for verdict in self.verdicts]
        count = {word: words.count(word) for word in (FINE, LOOK, PROBLEM, UNKNOWN)}
        said = {FINE: "fine", LOOK: "to look at", PROBLEM: "a problem" if count[PROBLEM] == 1 else "problems",
                UNKNOWN: "unknown"}
        return f"Diagnostics: {', '.join(f'{n} {said[word]}' for word, n in count.items() if n)}."

    def to_json(self) -> str:
        return self.model_dump_json(indent=1) + "\n"

    def write(self, path: str | Path) -> None:
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: str | Path) -> Diagnostics:
        try:
            findings = cls.model_validate_json(text_file(Path(path)))
        except OSError:
            raise OutputError(f"'{path}' cannot be read: a study that ran without diagnostics has none") from None
        except (ValidationError, ValueError):
            raise OutputError(f"the diagnostics in '{path}' are damaged or of another version of fedci") from None
        if findings.format != FORMAT:
            raise OutputError(f"the diagnostics in '{path}' have format {findings.format}; this version reads {FORMAT}")
        return findings
