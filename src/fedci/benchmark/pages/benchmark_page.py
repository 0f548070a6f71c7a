"""The pages of a benchmark, from its results: `python -m fedci.benchmark.pages.benchmark_page RESULTS PAGE`.

    RESULTS/cells.csv, effects.csv, run.json ─► RESULTS/tables.md, summary.csv, figures/   (write_tables)
    and RESULTS/coverage/, ablation/          └► PAGE, the pages behind it in a folder of its name,
                                                 and figures/ beside it                    (write)
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from fedci.benchmark.pages import archive, chapters, figures, front, panorama, sheet
from fedci.benchmark.pages.archive import ABLATION, COVERAGE, Archive
from fedci.benchmark.pages.standing import standings
from fedci.errors import FedciError


def write_tables(folder: Path) -> list[str]:
    """`tables.md`, `summary.csv`, then `figures/`, into the results folder itself; the names of the figures drawn."""
    return _write_tables(Path(folder), archive.read_results(Path(folder)))


def _write_tables(folder: Path, results: Archive) -> list[str]:
    parts = [chapter.within() for chapter in chapters.table_chapters(results.summaries, repeated={}, drawn=())]
    (folder / "tables.md").write_text("\n".join(["# Tables\n", *parts]), encoding="utf-8")
    sheet.write(folder / "summary.csv", results.summaries)
    return figures.draw(folder / "figures", results.summaries, results.effects)


def write(folder: Path, page: Path) -> None:
    """The front page, the pages behind it in a folder of its name, and all figures (SVG) in `figures/` beside it."""
    folder, page = Path(folder), Path(page)
    results = archive.read_results(folder)
    own = {name: archive.read(folder / name) for name in (COVERAGE, ABLATION)}
    drawn = _write_tables(folder, results)
    ranked = standings(results.summaries, own[COVERAGE].summaries)
    behind = chapters.all_chapters(results, own, drawn)
    pictures = [*drawn, *panorama.draw(folder / "figures", ranked)]
    page.with_suffix("").mkdir(parents=True, exist_ok=True)
    for name in pictures:
        _copy(folder / "figures" / f"{name}.svg", page.parent / "figures")
    for chapter in behind:
        (page.with_suffix("") / f"{chapter.slug}.md").write_text(chapter.page(), encoding="utf-8")
    page.write_text(front.page(results, ranked, behind, page.stem), encoding="utf-8")


def _copy(file: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    shutil.copyfile(file, folder / file.name)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.pages.benchmark_page",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="folder with cells.csv, effects.csv and run.json")
    parser.add_argument("page", type=Path, help="the Markdown file to write, such as docs/benchmarks.md")
    options = parser.parse_args(arguments)
    try:
        write(options.results, options.page)
    except FedciError as error:
        parser.exit(error.exit_code, f"{error.message}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
