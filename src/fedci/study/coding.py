"""How a column of the study comes from cells of a site's table: codes, dates, units, cuts, and what it is called.

    cells of one column or more ─► missing_codes ─► values | merge | treated | date, since ─► combine ─► factor ─► cuts

A coding is data, never a formula: every step is one of a few words, so a study that came from somebody else can be read
before it is run, and does nothing else. Studies hold codings (`[coding.NAME]`, or the same keys in a column's own
table); a site's own `columns.toml` holds them too, for what the site calls its columns, and never travels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from fedci.errors import StudyError
from fedci.study.identity import check_format
from fedci.study.options import Options, nearest, validated
from fedci.study.toml import parsed, text_of

MAX_NAME = 80
"""Characters of a column's name, a level or the study's own name."""
MOST_CODES = 1000
"""Words that one coding may list."""
MOST_COLUMNS = 50
"""Columns that one column may be made from."""
DAYS = "days"
OWN_COLUMNS = "FEDCI_COLUMNS"
"""The environment variable with the path of a site's own file; FEDCI_COLUMNS_LYON for one site of several."""


def name_of(text: str) -> str:
    if not 1 <= len(text) <= MAX_NAME:
        raise ValueError(f"got {len(text)} characters, needs 1 to {MAX_NAME}")
    if text != text.strip() or not text.isprintable():
        raise ValueError("must not start or end with a blank, nor hold control characters")
    return text


def is_name(text: str) -> bool:
    """Whether a column, a level or a study may be called so."""
    try:
        return bool(name_of(text))
    except ValueError:
        return False


Name = Annotated[str, AfterValidator(name_of)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Combine = Literal["sum", "difference", "product", "ratio", "mean", "minimum", "maximum", "any", "all"]
OF_TWO = ("difference", "ratio")


def code_word(code: Any) -> Any:
    """A code as the text that a cell holds: 99 and 99.0 are '99', true is 'true'."""
    if isinstance(code, bool):
        return "true" if code else "false"
    if isinstance(code, int | float):
        whole = math.isfinite(code) and code == int(code)
        return str(int(code)) if whole else repr(float(code))
    return code.strip() if isinstance(code, str) else code


def _code_words(codes: Any) -> Any:
    """One code or a list of them."""
    listed = codes if isinstance(codes, list | tuple) else (codes,)
    return tuple(code_word(code) for code in listed)


class Coding(Options):
    """What is done to the cells of one column, in the order of the keys; and its label and unit."""

    label: Name | None = None
    """What reports and plots call the column."""
    unit: Name | None = None
    """Of its values after all of this."""
    column: Name | None = None
    """The column of the table that it is read from; none: the one of its own name."""
    columns: tuple[Name, ...] = ()
    """Several, which `combine` makes into one; what follows up to `date` is done to each."""
    missing_codes: tuple[str, ...] = ()
    """Cells that mean that there is no value, beside the empty ones."""
    values: dict[str, str | Number] = {}
    """Cell → what it means. Every other cell is an error."""
    merge: dict[str, tuple[str, ...]] = {}
    """Word → cells that become it; others stay as they are."""
    treated: tuple[str, ...] = ()
    """Of the treatment: cells of the treated, which become 1."""
    untreated: tuple[str, ...] = ()
    """Cells that become 0; none: the one other word that there is."""
    date: str | None = None
    """How dates are written, such as "%d.%m.%Y"."""
    since: Name | None = None
    """A column with dates: the value is the number of days from there."""
    combine: Combine | None = None
    factor: Number | None = None
    """× factor …"""
    offset: Number | None = None
    """… + offset."""
    cuts: tuple[Number, ...] = ()
    """Numbers become words: below the first cut, from the first to below the second, …"""
    labels: tuple[Name, ...] = ()
    """The words, one more than cuts."""

    @field_validator("missing_codes", "treated", "untreated", mode="before")
    @classmethod
    def _words(cls, codes: Any) -> Any:
        return _code_words(codes)

    @field_validator("values", mode="before")
    @classmethod
    def _value_words(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        numeric = all(isinstance(value, int | float) for value in values.values())
        return {code_word(code): float(value) if numeric else code_word(value) for code, value in values.items()}

    @field_validator("merge", mode="before")
    @classmethod
    def _merged_words(cls, merge: Any) -> Any:
        if not isinstance(merge, Mapping):
            return merge
        return {code_word(word): _code_words(codes) for word, codes in merge.items()}

    @field_validator("date")
    @classmethod
    def _date_form(cls, form: str | None) -> str | None:
        return form if form is None else check_format(form)

    @model_validator(mode="after")
    def _steps_fit(self) -> Self:
        if problem := self._misfit():
            raise ValueError(problem)
        return self

    def _misfit(self) -> str | None:
        """What does not go together, and the remedy; none: all does."""
        return self._misfit_of_codes() or self._misfit_of_columns() or self._misfit_of_numbers()

    def _misfit_of_codes(self) -> str | None:
        listed = [*self.missing_codes, *self.values, *(code for codes in self.merge.values() for code in codes),
                  *self.treated, *self.untreated]
        ways = [key for key in ("values", "merge", "treated", "date") if getattr(self, key)]
        if len(ways) > 1:
            return f"{' and '.join(ways)} are two readings of the same cells. Keep one"
        if self.untreated and not self.treated:
            return 'untreated needs treated: the word of the treated cells, such as treated = "Y"'
        if len(listed) > MOST_CODES:
            return f"got {len(listed)} codes, at most {MOST_CODES} can be listed. Cut numbers with cuts instead"
        twice = sorted({code for code in listed if listed.count(code) > 1})
        return f"the code {twice[0]!r} stands twice. Each cell means one thing" if twice else None

    def _misfit_of_columns(self) -> str | None:
        if self.column is not None and self.columns:
            return "column and columns are both given. Keep columns for several, column for one"
        if bool(self.columns) != bool(self.combine):
            return 'columns and combine go together, such as columns = ["a", "b"], combine = "sum"'
        if len(self.columns) > MOST_COLUMNS:
            return f"got {len(self.columns)} columns, at most {MOST_COLUMNS} make one"
        if len(set(self.columns)) < len(self.columns):
            return "columns names the same column twice"
        if self.combine in OF_TWO and len(self.columns) != 2:
            return f'combine = "{self.combine}" takes two columns, got {len(self.columns)}'
        if bool(self.date) != bool(self.since):
            return 'date and since go together: days from one date to another, date = "%d.%m.%Y", since = "admitted"'
        return "a date is read from one column. Remove columns and combine" if self.date and self.columns else None

    def _misfit_of_numbers(self) -> str | None:
        if self.factor == 0:
            return "factor = 0 makes all values the same"
        if list(self.cuts) != sorted(set(self.cuts)):
            return "cuts must rise, each above the one before"
        if self.labels and len(self.labels) != len(self.cuts) + 1:
            return f"{len(self.cuts)} cuts make {len(self.cuts) + 1} parts, got {len(self.labels)} labels"
        if len(set(self.labels)) < len(self.labels):
            return "labels holds the same label twice"
        words = self.merge or any(isinstance(value, str) for value in self.values.values())
        if words and (self.computes or self.columns):
            return "values and merge give words here, and words cannot be computed with. Give numbers"
        return None

    @property
    def computes(self) -> bool:
        """Whether it makes numbers from numbers."""
        return self.factor is not None or self.offset is not None or bool(self.cuts)

    @property
    def changes(self) -> bool:
        """Whether it does anything to cells."""
        return bool(self.model_dump(exclude={"label", "unit"}, exclude_defaults=True))

    def sources(self, name: str) -> tuple[str, ...]:
        """The columns of the table that the column `name` is made from."""
        own = self.columns or (self.column or name,)
        return (*own, *((self.since,) if self.since and self.since not in own else ()))

    def words_of_cuts(self) -> tuple[str, ...]:
        """The levels of a column that is cut."""
        if self.labels or not self.cuts:
            return self.labels
        ends = [f"{cut:g}" for cut in self.cuts]
        return (f"<{ends[0]}", *(f"{low} to <{high}" for low, high in zip(ends, ends[1:], strict=False)),
                f">={ends[-1]}")

    def levels(self) -> tuple[str, ...]:
        """The words that it can give, in the order in which they stand; empty: it does not say."""
        if self.cuts:
            return self.words_of_cuts()
        return tuple(dict.fromkeys(value for value in self.values.values() if isinstance(value, str)))

    def in_words(self, name: str) -> str:
        """What is done, on one line."""
        own = self.columns or (self.column or name,)
        parts = [f"{self.combine} of {', '.join(own)}" if self.columns else f"from {own[0]}" if self.column else ""]
        parts += [f"missing: {', '.join(self.missing_codes)}" if self.missing_codes else ""]
        parts += [", ".join(f"{code} → {_shown(value)}" for code, value in self.values.items())]
        parts += [", ".join(f"{', '.join(codes)} → {word}" for word, codes in self.merge.items())]
        if self.treated:
            parts += [f"treated: {', '.join(self.treated)}; untreated: {', '.join(self.untreated) or 'the other word'}"]
        parts += [f"{DAYS} since {self.since}, written {self.date}" if self.since else ""]
        parts += [f"× {self.factor:g}" if self.factor is not None else ""]
        parts += [f"+ {self.offset:g}" if self.offset is not None else ""]
        parts += [f"cut into {', '.join(self.words_of_cuts())}" if self.cuts else ""]
        return "; ".join(part for part in parts if part)

    def plain(self) -> dict[str, Any]:
        """Only what is said, as a study file holds it."""
        return self.model_dump(exclude_defaults=True)


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


KEYS = tuple(Coding.model_fields)
OF_COVARIATE = ("name", "type", "levels", "range", "missing")
"""The keys of a covariate's table that are none of its coding."""
OF_NUMBERS = ("cuts", "labels")
"""Of an outcome they mean something else: it is never made into words."""
TREATMENT_KEYS = ("treated", "untreated")
Codings = Mapping[str, Coding]


def coding_of(place: str, given: Any) -> Coding:
    """From a table of a file; the first problem as one StudyError at `place`."""
    if isinstance(given, Coding):
        return given
    if not isinstance(given, Mapping):
        raise StudyError(f"{place}: got {type(given).__name__}, needs a table, such as {{ values = {{ Y = 1, N = 0 }} "
                         f"}}")
    return validated(Coding, dict(given), place)


def sources(codings: Codings, names: Sequence[str]) -> tuple[str, ...]:
    """The columns of a table that these columns are made from, each once."""
    made = [source for name in names for source in (codings[name].sources(name) if name in codings else (name,))]
    return tuple(dict.fromkeys(made))


# ── the codings of a study: the same keys in the column's own table ─────────────────────────────────────────


def with_codings(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a study, with the codings that stand in tables of treatment, outcome and covariates under
    `coding`."""
    fields, found = dict(data), {}
    for role in ("treatment", "outcome"):
        if isinstance(given := fields.get(role), Mapping):
            rest, coding = _parted(given, OF_NUMBERS if role == "outcome" else ())
            if role == "treatment":
                rest, arms = _named(rest)
                more, fields = _arms(arms, coding), {**fields}
                fields |= {} if more is None else {"arms": more}
            fields[role] = rest
            if coding:
                found[_name_in(given)] = coding_of(role, coding)
    if "covariates" in fields:
        fields["covariates"], more = _covariates(fields["covariates"])
        found |= more
    said = fields.get("coding") or {}
    if not isinstance(said, Mapping):
        raise StudyError(f"coding: got {type(said).__name__}, needs a table for each column")
    for name, given in said.items():
        if name in found:
            raise StudyError(f"coding.{name}: the column's own table has a coding already. Keep one of them")
        found[str(name)] = coding_of(f"coding.{name}", given)
    if found or "coding" in fields:
        fields["coding"] = found
    return fields


def _parted(given: Mapping[str, Any], itself: Sequence[str] = ()) -> tuple[Any, dict[str, Any]]:
    """(the keys of the column itself, the keys of its coding); those in `itself` are none of a coding here."""
    keys = [key for key in KEYS if key not in itself]
    return ({key: value for key, value in given.items() if key not in keys},
            {key: value for key, value in given.items() if key in keys})


def _name_in(given: Mapping[str, Any]) -> str:
    """The column; of a time to an event, that of the event."""
    return str(given.get("name", given.get("event", "")))


def _named(rest: Mapping[str, Any]) -> tuple[Any, Any]:
    """(its name, its arms): the treatment has these and its coding, and nothing else."""
    if other := sorted(set(rest) - {"name", "arms"}):
        raise StudyError(f"treatment: unknown key {other[0]!r}{nearest(str(other[0]), ('name', 'arms', *KEYS))}")
    if "name" not in rest:
        raise StudyError("treatment: the key 'name' is missing: the column that says who is treated")
    return rest["name"], rest.get("arms")


def _arms(arms: Any, coding: dict[str, Any]) -> Any:
    """Those of a study with more than two; two are a coding, as if treated and untreated were named."""
    if not isinstance(arms, list | tuple):
        return arms
    words = tuple(code_word(arm) for arm in arms)
    if len(words) == 2 and len(set(words)) == 2 and not any(key in coding for key in TREATMENT_KEYS):
        coding |= {"untreated": words[:1], "treated": words[1:]}
        return None
    return words


def _covariates(given: Any) -> tuple[Any, dict[str, Coding]]:
    found: dict[str, Coding] = {}

    def parted(name: Any, options: Any) -> Any:
        if not isinstance(options, Mapping):
            return options
        rest, coding = _parted(options)
        for key in rest:
            if key not in OF_COVARIATE:
                raise StudyError(f"covariates.{name}: unknown key {key!r}{nearest(str(key), (*OF_COVARIATE, *KEYS))}")
        if coding:
            found[str(name)] = made = coding_of(f"covariates.{name}", coding)
            if rest.get("type") == "categorical" and rest.get("levels") is None and made.levels():
                rest["levels"] = made.levels()
        return rest

    if isinstance(given, Mapping):
        return {name: parted(name, options) for name, options in given.items()}, found
    if isinstance(given, list | tuple):
        return [parted(_name_in(item), item) if isinstance(item, Mapping) else item for item in given], found
    return given, found


# ── a site's own file ───────────────────────────────────────────────────────────────────────────────────────


def read_own(path: Path) -> dict[str, Coding]:
    """`columns.toml` of a site: for a column that the study reads, what the site calls it (a word), or a coding."""
    place = f"columns file {path}"
    tables = parsed(text_of(path, "columns file"), place)
    return {name: coding_of(f"{place}, {name!r}", {"column": given} if isinstance(given, str) else given)
            for name, given in tables.items()}


def check_own(own: Codings, read: Sequence[str], place: str) -> None:
    """Every name in a site's file is one that the study reads."""
    for name in own:
        if name not in read:
            raise StudyError(f"{place}: the study reads no column {name!r}{nearest(name, read)}. It reads "
                             f"{', '.join(read)}")
