"""`make architecture`: the table of requests in docs/security.md, from the rows of `fedci.protocol.requests`."""

from __future__ import annotations

from pathlib import Path

from marks import marked, rewrite

from fedci.protocol.requests import REQUESTS, SIZES, Array, Request

PAGE = Path(__file__).parent / "security.md"
HEAD = ("| request | phase | what answers it | notes beside it | summed over sites | at most | in the ledger |",
        "|---|---|---|---|---|---|---|")


def requests() -> str:
    sizes = "; ".join(f"*{name}*: {meaning}" for name, meaning in SIZES.items())
    return "\n".join([*HEAD, *map(_line, REQUESTS.values())]) + f"\n\nLengths by name: {sizes}.\n"


def _line(row: Request) -> str:
    cells = (f"`{row.name}`", row.phase, ", ".join(map(_array, row.answer)) or "–", ", ".join(row.notes) or "–",
             _sum(row), _most(row), "numbers" if row.in_full else "shapes")
    return f"| {' | '.join(cells)} |"


def _most(row: Request) -> str:
    if not row.answer:
        return "–"
    return "by the options" if row.draws else str(row.most)


def _array(array: Array) -> str:
    return f"{array.name} [{' × '.join(map(str, array.shape))}]" if array.shape else array.name


def _sum(row: Request) -> str:
    """What is added, and what is told of each site beside the sum."""
    if not row.summed:
        return "no"
    own = "averages, with `site_effects`" if row.averaged else ", ".join(map(_array, row.own))
    return f"yes; of each site {own}" if own else "yes"


def with_requests(text: str) -> str:
    return marked(text, "requests", "make architecture", requests())


if __name__ == "__main__":
    rewrite(PAGE, with_requests)
