"""`make architecture`: the table of modules in docs/architecture.md, from what each module says of itself first."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from marks import marked, rewrite

ROOT = Path(__file__).parents[1] / "src" / "fedci"
PAGE = Path(__file__).parent / "architecture.md"
FOLDERS = ("study", "table", "model", "model/paper", "model/shared", "diagnostics", "privacy", "protocol", "site",
           "coordinator", "result", "report", "network", "mail", "cli", "synthetic", "benchmark", "benchmark/run",
           "benchmark/learners", "benchmark/cost", "benchmark/pages")


def first_words(path: Path) -> str:
    """The first sentence of a module's docstring."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[^.…])\.(?= |$)", text)[0].rstrip(":").replace("|", "\\|")


def modules() -> str:
    parts = ["\n### beside the folders\n", *_table(ROOT)]
    for folder in FOLDERS:
        parts += [f"\n### `{folder}/`: {first_words(ROOT / folder / '__init__.py')}\n", *_table(ROOT / folder)]
    return "\n".join(parts) + "\n"


def _table(folder: Path) -> list[str]:
    files = [path for path in sorted(folder.glob("*.py")) if not path.stem.startswith("__")]
    rows = [f"| `{path.stem}` | {first_words(path)} |" for path in files]
    return ["| module | |", "|---|---|", *rows] if rows else []


def with_modules(text: str) -> str:
    return marked(text, "modules", "make architecture", modules() + "\n")


if __name__ == "__main__":
    rewrite(PAGE, with_modules)
