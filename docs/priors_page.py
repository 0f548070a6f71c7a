"""`make priors`: the table of priors in docs/model.md, from the model's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from marks import marked, rewrite

from fedci.model.shared.priors import TABLE, Prior, Value

PAGE = Path(__file__).parent / "model.md"


def number(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def numbers(value: Value | None) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{number(of_kind)} ({name.replace('_', ' ')})" for name, of_kind in value.items())
    return number(value) if isinstance(value, float) else f"({', '.join(map(number, value))})"


def shape(prior: Prior) -> str:
    return "one per scale" if prior.shape == ("k",) else " × ".join(map(str, prior.shape))


def law(prior: Prior) -> str:
    centre = "where k starts" if prior.shape == ("k",) else numbers(prior.mean)
    return f"{centre} ± {numbers(prior.sd)}" + ("" if prior.law == "Gaussian" else f", {prior.law}")


def row(part: str, prior: Prior) -> str:
    only = f"; with `{prior.option}`" if prior.option else ""
    only += f"; of {prior.only} outcomes only" if prior.only else ""
    only += f"; around {numbers(prior.binary)} where outcomes are 0 and 1" if prior.binary is not None else ""
    start = "ridge regression" if part == "directions" else numbers(prior.start)
    return f"| `{part}` | {prior.letter} | {shape(prior)} | {law(prior)} | {start} | {prior.reason}{only} |"


def table() -> str:
    return "\n".join(["| part of θ | | shape | prior | start, where another | why |", "|---|---|---|---|---|---|",
                      *(row(part, prior) for part, prior in TABLE.items())])


def with_priors(text: str) -> str:
    return marked(text, "priors", "make priors", f"\n{table()}\n\n")


if __name__ == "__main__":
    rewrite(PAGE, with_priors)
