"""Which way every value of a disclosure policy is stricter, in one table: what a study may change, what a site holds.

    RULES[field] = (direction, where it is applied, words)          stricter(field, a, b) is one of a and b

Three things follow from it: a policy of the name `standard` has no value looser than the real one; a site's floor holds
where the study is looser, if a site can apply it alone; and where all parties must do the same, the site refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Direction = Literal["more", "less", "no", "masks", "all", "free"]
Where = Literal["site", "parties", "result"]
"""Where a floor is applied: at the site alone; by all parties, who must agree; only in what is written of a result."""

DIRECTIONS: Mapping[Direction, str] = {
    "more": "more is stricter", "less": "less is stricter, a number stricter than none", "no": "false is stricter",
    "masks": 'true is stricter than "auto", "auto" than false',
    "all": "the longer list is stricter", "free": "neither way is stricter",
}
MASKS: Mapping[Any, int] = {False: 0, "auto": 1, True: 2}


@dataclass(frozen=True)
class Rule:
    """How two values of one field compare, and who has to apply the stricter."""

    direction: Direction
    where: Where
    words: str
    """What the value says, for whoever reads a site's policy."""

    @property
    def has_floor(self) -> bool:
        """Whether a site's own value means anything: not of words, nor of what only the report shows."""
        return self.direction != "free" and self.where != "result"


RULES: Mapping[str, Rule] = {
    "name": Rule("free", "parties", "the policy's name"),
    "min_rows": Rule("more", "site", "rows that the site needs to take part"),
    "min_arm_rows": Rule("more", "site", "treated rows, and untreated rows, that the site needs"),
    "override_reason": Rule("free", "parties", "why min_arm_rows may be below 10"),
    "min_cell": Rule("more", "site", "people on each side of a 0/1 column, and in a count, below which it is not told"),
    "moment_digits": Rule("less", "site", "significant digits of the moments that leave"),
    "parameters_per_row_warn": Rule("less", "result", "parameters for each person above which the result warns"),
    "statistics_per_row": Rule("less", "site", "columns of the fit's sums for each person, at most"),
    "max_parameters_per_row": Rule("less", "site", "parameters of the model for each person, at most"),
    "numbers_per_person": Rule("less", "site", "numbers told in all sums of a study for each person, at most"),
    "min_difference": Rule("more", "site", "people by which two cohorts that are told of differ, unless they are one"),
    "max_cohorts": Rule("less", "site", "different cohorts that are told of with one outcome, over all studies"),
    "max_levels": Rule("less", "site", "levels of a categorical column, at most"),
    "max_level_share": Rule("less", "site", "levels of a categorical column for each row, at most"),
    "max_rounds": Rule("less", "site", "evaluations that a fit may ask for"),
    "allow_single_arm": Rule("no", "site", "whether the site takes part with treated, or untreated, people only"),
    "allow_linkage": Rule("no", "parties", "whether keyed tokens of people leave, to find who stands at several sites"),
    "secure_sum": Rule("masks", "parties", "whether only sums over three sites or more are seen (masks)"),
    "site_effects": Rule("no", "parties", "whether the site's own average effects are told"),
    "outcome_noise": Rule("more", "site", "noise on each person's outcome, in its standard deviations"),
    "sum_noise": Rule("more", "parties", "sds to which a person's value is left open by all sums of a fit at home"),
    "epsilon": Rule("less", "parties", "ε of differential privacy"),
    "delta": Rule("less", "parties", "δ of differential privacy"),
    "noised": Rule("all", "parties", "what differential privacy noises"),
    "outcome_range": Rule("free", "parties", "declared bounds of the outcome, which its noise is measured by"),
    "effect_bound": Rule("free", "parties", "declared bound of an effect, which its noise is measured by"),
    "gradient_clip": Rule("free", "parties", "the norm that gradients are cut to, which their noise is measured by"),
    "max_file_bytes": Rule("less", "site", "bytes of a file above which it is not opened"),
}
"""Of every field of `Policy`; a test fails where one is missing."""


def _more(value: Any, floor: Any) -> bool:
    return value < floor


def _less(value: Any, floor: Any) -> bool:
    """None is no limit: the loosest."""
    return floor is not None and (value is None or value > floor)


LOOSER: Mapping[Direction, Callable[[Any, Any], bool]] = {
    "more": _more, "less": _less, "no": lambda value, floor: value and not floor,
    "masks": lambda value, floor: MASKS[value] < MASKS[floor],
    "all": lambda value, floor: not set(floor) <= set(value), "free": lambda value, floor: False,
}


def looser(field: str, value: Any, floor: Any) -> bool:
    """Whether `value` asks for less than `floor` does."""
    return bool(LOOSER[RULES[field].direction](value, floor))


def stricter(field: str, value: Any, floor: Any) -> Any:
    """The one of the two that asks for more; of two lists, what is in either."""
    if RULES[field].direction == "all":
        return tuple(dict.fromkeys((*value, *floor)))
    return floor if looser(field, value, floor) else value


def is_alone(field: str, value: Any) -> bool:
    """Whether a site can hold to a stricter value than the study's by itself. Of masks that the study leaves to the
    number of sites it can: it then answers no study of too few."""
    rule = RULES[field]
    return rule.where == "site" or (rule.direction == "masks" and value == "auto")


def looser_fields(values: Mapping[str, Any], floors: Mapping[str, Any]) -> Iterator[str]:
    """Fields in which `values` asks for less. What is noised counts only where the floors have noise at all."""
    for field in RULES:
        if field == "noised" and floors["epsilon"] is None:
            continue
        if looser(field, values[field], floors[field]):
            yield field


def shown(value: Any) -> str:
    """As it stands in a file."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case list() | tuple():
            return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)
