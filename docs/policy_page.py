"""`make architecture`: the table of a site's floors in docs/site.md, from the rules of `fedci.study.strictness`."""

from __future__ import annotations

from pathlib import Path

from marks import marked, rewrite

from fedci.study.policy import POLICIES
from fedci.study.strictness import DIRECTIONS, RULES, Rule, shown

PAGE = Path(__file__).parent / "site.md"
HEAD = ("| value | what it says | `standard` | stricter | where the study is looser |", "|---|---|---|---|---|")
WHERE = {"site": "the site's value holds", "parties": "the site refuses: all parties must do the same",
         "result": "only the report warns"}


def floors() -> str:
    return "\n".join([*HEAD, *(_line(key, rule) for key, rule in RULES.items() if rule.direction != "free")]) + "\n"


def _line(key: str, rule: Rule) -> str:
    also = '; of `"auto"`: it takes part in no study of fewer than three sites' if rule.direction == "masks" else ""
    cells = (f"`{key}`", rule.words, f"`{shown(getattr(POLICIES['standard'], key))}`", DIRECTIONS[rule.direction],
             WHERE[rule.where] + also)
    return f"| {' | '.join(cells)} |"


def with_floors(text: str) -> str:
    return marked(text, "floors", "make architecture", floors())


if __name__ == "__main__":
    rewrite(PAGE, with_floors)
