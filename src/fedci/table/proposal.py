"""`fedci init`: a study file proposed from a data file, every guess marked for review.

    column ─► what its cells look like (0/1, numbers, few words, all different, …) + what its name says ─► a role

The file goes to every party, so no exact extreme value of one person stands in it: ranges are widened to round
numbers, and shares of missing values are rounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fedci.errors import DataError, FedciError
from fedci.plain import printable
from fedci.study.coding import MAX_NAME, coding_of, is_name
from fedci.study.covariate import Covariate
from fedci.study.omop import Omop
from fedci.study.options import nearest
from fedci.study.policy import policy as policy_of
from fedci.study.study import Study
from fedci.table.cdm import common_of
from fedci.table.columns import ANY_SIZE, read_columns
from fedci.table.database import Query, kind_at
from fedci.table.recode import coded
from fedci.table.values import A_DATE, NUMBER, Column, numbers, told_of, without_missing_words, words, zeros_and_ones

TREATMENT = re.compile(r"treat|^trt|^arm$|expos|^drug|interven|^w$|^z$|^rx|random|alloc|assign|^group$", re.I)
OUTCOME = re.compile(r"outcome|response|change|score|^y$|_y$|result|endpoint|death|died|dead|mortal|surviv|readmi|"
                     r"relaps", re.I)
IDENTITY = re.compile(r"(^|_|\b)(id|ids|nid|pid|mrn|ssn|nhs|uuid|person|patient|subject)(_|$|\b|no$|nr$)|(_id|Id|ID)$")
AFTER = re.compile(r"death|dead|died|mortal|surviv|event|complic|recur|relaps|readm|adverse|endpoint|outcome|discharg|"
                   r"alive|vital_?stat|^status$|follow|(^|_)(post|after|fu|fup|los)(_|\d|$)|_(d|day|m|month|w|week|y|year)_?\d+$|"
                   r"\d_?(d|days?|m|mo|months?|w|weeks?|y|years?)$", re.I)
"""Names of what happens after a treatment."""
BEFORE = 3
"""Columns that stand before the treatment in a table whose order says something."""
YES, NO = ("y", "yes", "ja", "oui", "si", "true"), ("n", "no", "nein", "non", "false", "none", "control", "placebo",
                                                     "sham", "usual care", "standard care", "untreated", "unexposed")
UNKNOWN = ("u", "unk", "unknown", "?", "9", "99")
"""Words of columns of yes and no, and of arms, in small letters."""
NOT_KNOWN = (*UNKNOWN, "-", "--", "missing", "not known", "not done", "n.d.", "nd", "n.k.", "nk", "k.a.", "inconnu")
"""Words among numbers."""
LEFT_OUT = {"text": "text of many kinds", "constant": "one value only", "empty": "no values",
            "dates": "dates: make days of them by date and since", "numbering": "it numbers the rows of this file",
            "mixed": "numbers, and some cells with text", "codes": "codes: numbers that begin with 0"}
"""Why a column has no role, by what its cells look like."""
FEW_CANDIDATES = 6
"""Among more columns of two values, none of which is named so, nobody guesses the treatment."""
SHOWN = 12
"""Columns that a message names at most."""
NOT_ASKED = "not among --covariates"
TIME = re.compile(r"days|weeks|months|years|time|followup|follow_up|futime|rtime|dtime|tstop", re.I)
EVENT = re.compile(r"death|died|dead|mortal|event|status|relaps|recur|readmi|censor", re.I)
COUNT = re.compile(r"falls|visits|attacks|episodes|seizures|exacerbat|infections|admissions|bleeds|(^|_)(n|num|number|"
                   r"count|counts)(_|$)", re.I)
EARLIER = re.compile(r"prior|previous|before|baseline|histor|past", re.I)
"""Names of how often something happened; but not of what happened before."""
EXPOSURE = re.compile(r"^(person_?)?(days|weeks|months|years|time)$|follow|exposure|futime|at_risk", re.I)
HORIZON = 0.8
"""Of the time that nine of ten are followed no longer than: a first guess of where curves are compared."""
FEW_LEVELS = 12
"""Words of more kinds than this are text, not levels; whoever knows better writes them in."""
LEADING_ZERO = r"^\s*0\d+\s*$"
RARE = 10
"""A level that fewer people have is named in a remark."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a column's cells look like."""

    name: str
    kind: str
    """binary, numeric, categorical, unique, or one of LEFT_OUT."""
    missing: float
    """Share of cells without a value."""
    levels: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    """Widened outward to two digits."""
    coding: Mapping[str, Any] = field(default_factory=dict)
    """What words mean, where they are yes and no."""
    positive: float | None = None
    """Of numbers that are never negative, their 90% quantile."""
    counts: bool = False
    """Whether they are few whole numbers from 0 on."""
    two: bool = False
    """Whether they are two numbers."""
    whole: bool = False
    """Whether they are whole numbers from 0 on: how often something happened, if the name says so too."""


@dataclass(frozen=True)
class Guess:
    """A column's role and why."""

    look: Look
    role: str
    """treatment, outcome, time, exposure, covariate, id or left out."""
    why: str


class Asked(NamedTuple):
    """What is asked after: an outcome, its type, and the column beside it of a time or an exposure."""

    look: Look
    type: str
    beside: Look | None = None

    @property
    def why(self) -> str:
        measured = "is this the outcome, measured after the treatment?"
        few = " Few whole numbers: write type = \"count\" where they count events." if self.look.counts else ""
        return {"binary": f"{measured} 0 and 1: effects are differences of risks.", "numeric": measured + few,
                "survival": "did the event (1) or the end of follow-up (0) end the time?",
                "count": "does it count events since the treatment?"}[self.type]


@dataclass(frozen=True)
class Proposal:
    """A study, and the guesses behind it."""

    study: Study
    guesses: tuple[Guess, ...]
    rows: int

    def to_toml(self) -> str:
        """The study file with a remark at each guess; `Study.read` of it is the study."""
        remarks = {_head(guess): f"# review: {guess.why}" for guess in self.guesses
                   if guess.role not in ("left out", "time", "exposure")}
        if self.study.time is not None:
            remarks["outcome"] = ("# review: did the event (1) or the end of follow-up (0) end this time, from the "
                                  "treatment on? At which horizons are curves compared?")
        if self.study.outcome_type == "count":
            remarks["outcome"] = ("# review: does it count events since the treatment? Without exposure everybody is "
                                  "taken to be followed equally long")
        lines = ["# Proposed by `fedci init`. What is marked 'review' is a guess from one file: check it against",
                 "# the protocol, then give the same file to every site. docs/study.md explains the keys."]
        for line in self.study.to_toml().splitlines():
            start = line if line.startswith("[") else line.partition(" = ")[0]
            lines += [remarks.pop(start)] if start in remarks else []
            lines.append(line)
        left = [f"#   {guess.look.name!r}: {guess.why}" for guess in self.guesses
                if guess.role == "left out" and guess.why != NOT_ASKED]
        lines += ["", "# Left out; add what the study needs:", *left] if left else []
        return "\n".join(lines) + "\n"


def _head(guess: Guess) -> str:
    """Where the study file speaks of the column: its own table, or a key at the top."""
    from fedci.study.toml import toml_key

    at = {"treatment": "treatment", "outcome": "outcome", "id": "ids"}
    return at.get(guess.role) or f"[covariates.{toml_key(guess.look.name)}]"


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What whoever asks knows already; none: to be guessed."""

    treatment: str | None = None
    outcome: str | None = None
    covariates: tuple[str, ...] | None = None

    def check(self, names: Sequence[str]) -> None:
        """Every column is there, and has one role."""
        asked = [name for name in (self.treatment, self.outcome, *(self.covariates or ())) if name is not None]
        for name in asked:
            if name not in names:
                some = f"{', '.join(names[:SHOWN])}{', …' * (len(names) > SHOWN)}"
                raise DataError(f"there is no column {name!r} in the table{nearest(name, names)}; there are {some}")
            if asked.count(name) > 1:
                raise DataError(f"column {name!r} is named in two roles; it has one")


def propose(data: Any, name: str = "study", policy: str = "standard", roles: Roles | None = None) -> Proposal:
    """From a file or a query: the columns looked at, roles guessed (but for those that are said), a study that can be
    read."""
    roles = roles or Roles()
    columns = read_columns(data, None, ANY_SIZE)
    rows = len(next(iter(columns.values())).cells)
    if not rows:
        raise DataError("the table has a header but no rows. Export it again")
    roles.check(list(columns))
    looks = [_look(column) for column in columns.values()]
    named = [look for look in looks if is_name(look.name)]
    unnamed = tuple(Guess(look, "left out", "no name for a study: rename it") for look in looks if look not in named)
    found, outcome = _roles(named, roles)
    guesses = (*found, *unnamed)
    return Proposal(_study(guesses, outcome, name, policy), guesses, rows)


# ── what a column looks like ────────────────────────────────────────────────────────────────────────────────


def _look(column: Column) -> Look:
    with told_of(f"column {column.name!r}"):
        for read in (_as_binary, _as_codes, _as_numeric, _as_numeric_but_unknown, _as_words):
            try:
                if (look := read(column)) is not None:
                    return look
            except FedciError:
                continue
    return Look(name=column.name, kind="text", missing=0.0)


def _as_binary(column: Column) -> Look | None:
    values = zeros_and_ones(column, "look again")
    known = values[~np.isnan(values)]
    if known.size == 0:
        return Look(name=column.name, kind="empty", missing=1.0)
    return Look(name=column.name, kind="binary", missing=_share(values)) if np.ptp(known) else None


def _as_codes(column: Column) -> Look | None:
    """Of postal codes and the like the zeros in front would be lost."""
    text = words(column)
    if not pc.any(pc.match_substring_regex(text, LEADING_ZERO)).as_py():
        return None
    return Look(name=column.name, kind="unique" if len(pc.unique(text)) == len(text) else "codes",
                missing=float(text.null_count / max(len(text), 1)))


def _as_numeric(column: Column) -> Look | None:
    values = numbers(column, "look again")
    known = values[~np.isnan(values)]
    if np.ptp(known) == 0:
        return Look(name=column.name, kind="constant", missing=_share(values))
    whole = bool((known == np.round(known)).all())
    if np.array_equal(values, values[0] + np.arange(len(values))) and values[0] in (0, 1):
        return Look(name=column.name, kind="numbering", missing=0.0)
    if whole and len(np.unique(known)) == len(values) and IDENTITY.search(column.name):
        return Look(name=column.name, kind="unique", missing=0.0)
    counts = whole and known.min() == 0 and len(np.unique(known)) <= FEW_LEVELS
    return Look(name=column.name, kind="numeric", missing=_share(values), two=len(np.unique(known)) == 2,
                range=_round_range(known.min(), known.max()),
                positive=float(np.quantile(known, 0.9)) if known.min() >= 0 else None, counts=counts,
                whole=whole and known.min() == 0)


def _as_numeric_but_unknown(column: Column) -> Look | None:
    """Numbers among which some words say 'unknown'."""
    text = pc.utf8_trim_whitespace(words(column))
    others = pc.unique(text.filter(pc.fill_null(pc.invert(pc.match_substring_regex(text, NUMBER)), False))).to_pylist()
    codes = sorted(word for word in others if word.lower() in NOT_KNOWN)
    if not codes:
        return None
    coding = {"missing_codes": codes}
    look = _as_numeric(coded({column.name: coding_of(column.name, coding)}, {column.name: column}, (column.name,))[
        column.name])
    return None if look is None or look.kind != "numeric" else replace(look, coding=coding)


def _share(values: np.ndarray) -> float:
    return float(np.isnan(values).mean())


def _round_range(low: float, high: float) -> tuple[float, float]:
    """[low, high] widened by a tenth of its width, and to two digits of it; what is not negative stays so."""
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    wide = 0.1 * (high - low)
    down, up = math.floor((low - wide) / step) * step, math.ceil((high + wide) / step) * step
    return float(f"{max(down, 0.0) if low >= 0 else down:.12g}"), float(f"{up:.12g}")


def _as_words(column: Column) -> Look | None:
    text = words(column)
    counted = pc.value_counts(pc.drop_null(pc.utf8_trim_whitespace(text)).combine_chunks())
    levels_counted = sorted((entry["values"], entry["counts"]) for entry in counted.to_pylist())
    missing = float(text.null_count / max(len(text), 1))
    if (kind := _of_another_kind(text)) is not None:
        return Look(name=column.name, kind=kind, missing=missing)
    if (found := _yes_and_no(levels_counted)) is not None:
        gone = missing + sum(n for word, n in levels_counted if word in found.get("missing_codes", ())) / len(text)
        return Look(name=column.name, kind="binary", missing=gone, coding=found)
    if len(levels_counted) == len(text) > FEW_LEVELS:
        return Look(name=column.name, kind="unique", missing=missing)
    if not 2 <= len(levels_counted) <= FEW_LEVELS or not all(is_name(word) for word, _ in levels_counted):
        return Look(name=column.name, kind="constant" if len(levels_counted) == 1 else "text", missing=missing)
    common = max(levels_counted, key=lambda entry: entry[1])[0]
    levels = (common, *(word for word, _ in levels_counted if word != common))
    return Look(name=column.name, kind="categorical", missing=missing, levels=levels,
                rare=tuple(word for word, count in levels_counted if count < RARE))


def _of_another_kind(text: pa.ChunkedArray) -> str | None:
    """Whether words are dates, or numbers for the most part."""
    known = pc.drop_null(without_missing_words(text))
    for form, least, kind in ((A_DATE, 1.0, "dates"), (NUMBER, 0.5, "mixed")):
        if len(known) and pc.mean(pc.match_substring_regex(known, form).cast(pa.float64())).as_py() >= least:
            return kind
    return None


def _yes_and_no(levels_counted: Sequence[tuple[str, int]]) -> dict[str, Any] | None:
    """The coding of a column of yes and no, and perhaps unknown; None of any other."""
    words_there = [word for word, _ in levels_counted if is_name(word)]
    yes, no, unknown = ([word for word in words_there if word.lower() in known] for known in (YES, NO, UNKNOWN))
    if len(yes) != 1 or len(no) != 1 or len(words_there) > 2 + len(unknown) or len(words_there) < len(levels_counted):
        return None
    return {"values": {yes[0]: 1, no[0]: 0}} | ({"missing_codes": unknown} if unknown else {})


# ── roles ───────────────────────────────────────────────────────────────────────────────────────────────────


def _roles(looks: Sequence[Look], roles: Roles) -> tuple[tuple[Guess, ...], Asked]:
    by_name = {look.name: look for look in looks}
    said = roles.treatment is not None
    before = [look for look in looks if not AFTER.search(look.name)]
    treatment = (_arms(by_name[str(roles.treatment)]) if said else
                 _guessed_treatment([look for look in before if look.name != roles.outcome]))
    rest = [look for look in looks if look.name != treatment.name]
    outcome = _asked(rest, by_name[roles.outcome] if roles.outcome is not None else None)
    order = [look.name for look in looks]
    later = set(order[order.index(treatment.name):]) if order.index(treatment.name) >= BEFORE else set()
    return tuple(_beside(look, outcome.type) if look is outcome.beside else
                 _role(look, treatment, outcome, roles, look.name in later) for look in looks), outcome


def _asked(rest: Sequence[Look], said: Look | None) -> Asked:
    """The outcome that is said, or guessed, with its type. A time to an event is guessed from both of its columns."""
    look = said or _guessed_outcome(rest)
    if look.kind not in ("numeric", "binary"):
        raise DataError(f"column {look.name!r} holds words, and an outcome is a number, or 0 and 1. Choose another,"
                        f' or write in the study what they mean: outcome = {{ name = …, type = "binary", values = … }}')
    if said is None and (followed := _followed(rest, look)):
        return followed
    if _is_count(look):
        return Asked(look, "count", next((one for one in rest if one.positive and EXPOSURE.search(one.name)
                                          and one is not look and not one.missing), None))
    return Asked(look, look.kind)


def _guessed_outcome(rest: Sequence[Look]) -> Look:
    found = _chosen(rest, OUTCOME, ("numeric", "binary"), "the outcome: a column of numbers")
    counted = [look for look in rest if _is_count(look) and not look.missing]
    return counted[-1] if counted and not OUTCOME.search(found.name) else found


def _is_count(look: Look) -> bool:
    """By its cells and its name."""
    return look.whole and bool(COUNT.search(look.name)) and not EARLIER.search(look.name)


def _followed(rest: Sequence[Look], outcome: Look) -> Asked | None:
    """The time to an event, where the outcome is one of its two columns."""
    event = next((look for look in rest if look.kind == "binary" and EVENT.search(look.name)), None)
    time = next((look for look in rest if look.positive and TIME.search(look.name) and not look.counts), None)
    if event is None or time is None or outcome not in (event, time) or event.missing or time.missing:
        return None
    return Asked(event, "survival", time)


def _beside(look: Look, type: str) -> Guess:
    return (Guess(look, "exposure", "over how long was it counted?") if type == "count" else
            Guess(look, "time", "was a person followed for so long?"))


def _guessed_treatment(looks: Sequence[Look]) -> Look:
    fits = [look for look in looks if look.kind == "binary"]
    named = [look for look in looks if TREATMENT.search(look.name) and (
        look.kind in ("binary", "categorical") or look.two)]
    if named and not any(look.kind == "binary" for look in named):
        return _arms(named[0])
    if len(fits) > FEW_CANDIDATES and not named:
        raise DataError(f"{len(fits)} columns hold two values, and no name says which is the treatment. Say it with "
                        f"--treatment NAME")
    return _arms(_chosen(looks, TREATMENT, ("binary",), "the treatment: a column of 0 and 1"))


def _arms(look: Look) -> Look:
    """The treatment's look, with what its words mean."""
    if look.kind == "binary":
        if not look.coding:
            return look
        values = look.coding["values"]
        arms = {"treated": [word for word, arm in values.items() if arm], "untreated": [
            word for word, arm in values.items() if not arm]}
        return replace(look, coding={key: part for key, part in look.coding.items() if key != "values"} | arms)
    if look.kind != "categorical":
        raise DataError(f"column {look.name!r} cannot be the treatment: it holds neither 0 and 1 nor a few words. "
                        f"Choose another, or write in the study which of its cells are which: treatment = {{ name = …, "
                        f"treated = …, untreated = … }}")
    untreated = [word for word in look.levels if word.lower() in NO]
    unknown = [word for word in look.levels if word.lower() in UNKNOWN]
    if not untreated:
        raise DataError(f"column {look.name!r} holds {len(look.levels)} words, and none says 'untreated' (N, no, "
                        f"control, placebo). Write in the study treatment = {{ name = …, treated = …, untreated = … }}"
                        f", or of more arms treatment = {{ name = …, arms = [reference, …] }}")
    treated = [word for word in look.levels if word not in (*untreated, *unknown)]
    return replace(look, coding={"treated": treated, "untreated": untreated}
                   | ({"missing_codes": unknown} if unknown else {}))


def _chosen(looks: Sequence[Look], named: re.Pattern[str], kinds: Sequence[str], needed: str) -> Look:
    """A column whose name says so and whose cells fit (kinds in order of preference), else the last that fits."""
    some = [look for kind in kinds for look in looks if look.kind == kind]
    if not some:
        raise DataError(f"no column can be {needed}. Code it so in the table, or write the study by hand")
    fits = [look for look in some if not look.missing] or some
    last = [look for look in fits if look.kind == fits[0].kind][-1]
    return next((look for look in (*fits, *some) if named.search(look.name)), last)


def _role(look: Look, treatment: Look, outcome: Asked, roles: Roles, later: bool) -> Guess:
    """`later`: whether it stands behind the treatment in a table whose order may say something."""
    dropped = " Rows without it are dropped: may they be?" if look.missing else ""
    if look.name == treatment.name:
        asked = "" if roles.treatment else _named(TREATMENT, look)
        words = _arm_words(treatment) if treatment.coding else "is 1 the treated, 0 the untreated?"
        return Guess(treatment, "treatment", words + asked + dropped)
    if look is outcome.look:
        unnamed = "" if roles.outcome or outcome.type == "count" else _named(OUTCOME, look)
        return Guess(look, "outcome", outcome.why + ("" if outcome.type == "survival" else unnamed) + dropped)
    if roles.covariates is not None and look.name not in roles.covariates:
        return Guess(look, "left out", NOT_ASKED)
    if look.kind in LEFT_OUT:
        return Guess(look, "left out", LEFT_OUT[look.kind])
    if roles.covariates is not None:
        return Guess(look, "covariate", _covariate_remark(look, later))
    if look.kind == "unique" or (IDENTITY.search(look.name) and look.kind != "binary"):
        return Guess(look, "id", "does it identify a person at every site? Remove it if not; linkage uses it")
    if AFTER.search(look.name):
        return Guess(look, "left out", "by its name it happens after the treatment: nothing to adjust for")
    return Guess(look, "covariate", _covariate_remark(look, later))


def _arm_words(look: Look) -> str:
    return f"are {', '.join(look.coding['treated'])} the treated, {', '.join(look.coding['untreated'])} the untreated?"


def _named(pattern: re.Pattern[str], look: Look) -> str:
    return "" if pattern.search(look.name) else " Its name does not say so"


def _covariate_remark(look: Look, later: bool) -> str:
    remarks = {"binary": "0 and 1", "numeric": "range widened from what this file holds: what can be true?",
               "categorical": "levels as in this file: does the codebook have more? The first is the reference"}
    parts = [remarks[look.kind]]
    if look.rare:
        parts.append(f"fewer than {RARE} people each: {', '.join(look.rare)}")
    if look.missing:
        parts.append(f"about {max(round(100 * look.missing), 1)}% missing: impute, or refuse")
    if "values" in look.coding:
        parts[0] = ", ".join(f"{word} is {value}" for word, value in look.coding["values"].items())
    if "missing_codes" in look.coding:
        parts.append(f"{', '.join(look.coding['missing_codes'])}: unknown")
    asked = "it stands behind the treatment in the table: measured before it? " if later else ""
    return (asked or "measured before the treatment? ") + "; ".join(parts)


def _study(guesses: Sequence[Guess], asked: Asked, name: str, policy: str) -> Study:
    role = {guess.role: guess.look for guess in guesses if guess.role in ("treatment", "outcome")}
    covariates = [_covariate(guess.look) for guess in guesses if guess.role == "covariate"]
    if not covariates:
        raise DataError("no column is left for a covariate: what explains who is treated and how they fare is needed")
    y, w = role["outcome"], role["treatment"]
    outcome: dict[str, Any] = {"name": y.name, "type": asked.type, **y.coding}
    if asked.type == "survival" and asked.beside is not None:
        horizon = float(f"{HORIZON * (asked.beside.positive or 1.0):.1g}")
        outcome = {"time": asked.beside.name, "event": y.name, "type": "survival", "horizons": [horizon], **y.coding}
    elif asked.beside is not None:
        outcome["exposure"] = asked.beside.name
    return Study(name=name, treatment={"name": w.name, **w.coding}, outcome=outcome, covariates=covariates,
                 rows_without="drop" if y.missing or w.missing else "refuse",
                 coding={guess.look.name: dict(guess.look.coding) for guess in guesses
                         if guess.role == "covariate" and guess.look.coding},
                 ids=tuple(guess.look.name for guess in guesses if guess.role == "id"), policy=policy_of(policy))


def _covariate(look: Look) -> Covariate:
    return Covariate.model_validate({"name": look.name, "type": look.kind, "levels": look.levels or None,
                                     "range": look.range, "missing": "impute" if look.missing else None})


# ── from a common data model ────────────────────────────────────────────────────────────────────────────────

COMMON = 5
"""Concepts of each table that are proposed: those that most people have on record."""
FEMALE = 8532
"""The concept of women."""


def propose_omop(site: str, cohorts: Sequence[int], name: str = "study", policy: str = "standard") -> str:
    """A study file from the site's common data model and the ids of three cohorts (target, comparator, outcome): age,
    sex, and the commonest conditions, drugs and measurements of the year before, to be reviewed."""
    target, comparator, outcome = cohorts
    bare = Omop(target=target, comparator=comparator, outcome=outcome)
    features: dict[str, Any] = {"age": {"table": "person", "take": "age"},
                                "female": {"table": "person", "take": "gender", "concepts": [FEMALE]}}
    covariates: dict[str, Any] = {"age": {"range": [0, 120], "unit": "years"}, "female": {"type": "binary"}}
    for table in ("condition", "drug", "measurement"):
        asked = Query(common_of(bare, table, kind_at(site), COMMON), site, f"the commonest concepts ({table})")
        found = next(iter(asked.chunks(None, COMMON, ANY_SIZE)))
        for concept, word in zip(found["concept"].cells.to_pylist(), found["name"].cells.to_pylist(), strict=True):
            column, number = f"{table}_{int(concept)}", table == "measurement"
            features[column] = {"table": table, "concepts": [int(concept)], "take": "last" if number else "any"}
            label = {"label": printable(word)[:MAX_NAME]} if word and is_name(printable(word)[:MAX_NAME]) else {}
            covariates[column] = ({"missing": "impute"} if number else {"type": "binary"}) | label
    omop = bare.model_dump(exclude_none=True) | {"features": features}
    study = Study(name=name, treatment="treated", outcome={"name": "outcome", "type": "binary"}, covariates=covariates,
                  policy=policy_of(policy), source={"omop": omop})
    return ("# Proposed by `fedci init --omop`: the commonest concepts of the year before the entry into a cohort.\n"
            "# review: are they measured before the treatment, and do they explain who is treated? See docs/study.md.\n"
            + study.to_toml())


def suggested_name(data: str | Path) -> str:
    stem = Path(str(data).removeprefix("sql:")).stem
    return stem if is_name(stem) else "study"


