"""One study by another version of fedci and by this one, in turn: seconds and bytes as ratios.

    python -m fedci.benchmark.cost.beside --old COMMIT|FOLDER [--studies 200 50 cli] [--times 1] [--out FILE]

DATA-1 (d = 20), five masked sites of so many people, every diagnostic, effects of all and of new people; `cli`: `fedci
run` and `fedci report` of three sites of 2,600 people (d = 10). Each in a process of its own that compiles anew
(`any_version`), the old before the new and the next time after it, so that whatever else the machine does falls on
both. `--old` is a folder with the sources of that version, or a commit of this repository, of which `git archive` makes
one; its packages are those installed here. Processor seconds count what the process did itself, on however busy a
machine.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedci.benchmark.cost import kept
from fedci.errors import UsageError
from fedci.model.programs import FRESH

SITES, NEW = 5, 200
CLI, CLI_SITES, CLI_PEOPLE, CLI_COLUMNS = "cli", 3, 2600, 10
HERE = Path(__file__).parents[4]
"""The tree of this version."""
OLD, NOW = "old", "now"
MEASURED = ("cold", "cold_cpu", "warm", "warm_cpu", "MB", "rounds")
WORDS = {"cold": "seconds, cold", "cold_cpu": "processor seconds, cold", "warm": "seconds, warm",
         "warm_cpu": "processor seconds, warm", "MB": "MB a site", "rounds": "rounds"}


class Cell(NamedTuple):
    """One process; NaN: not measured."""

    study: str
    which: str
    """`old` or `now`."""
    time: int
    version: str
    cold: float
    cold_cpu: float
    warm: float
    warm_cpu: float
    MB: float
    rounds: float
    ate: float


def plan(people: int, folder: Path) -> Path:
    """Tables and what is asked of them, for both versions the same bytes."""
    from fedci.synthetic.datasets import Sizes, synthetic

    splits = synthetic("DATA-1", 0, sizes=Sizes(SITES, train=people, test=NEW, validation=1))
    folder.mkdir(parents=True)
    tables = {f"site-{k}": folder / f"site-{k}.csv" for k in range(SITES)}
    for path, split in zip(tables.values(), splits, strict=True):
        split.train.frame().to_csv(path, index=False)
    new, asked = folder / "new.csv", folder / "plan.json"
    splits[0].test.frame().drop(columns=["w", "y"]).to_csv(new, index=False)
    study = {"treatment": "w", "outcome": "y", "covariates": list(splits[0].train.names),
             "policy": {"name": "simulation", "secure_sum": True}}
    asked.write_text(json.dumps({"study": study, "tables": {name: str(path) for name, path in tables.items()},
                                 "new": str(new)}), encoding="utf-8")
    return asked


def measure(tree: Path, asked: Path) -> dict[str, Any]:
    """`any_version` of a plan, with that tree's fedci."""
    alone = asked.parent / "alone"
    alone.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("any_version.py"), alone)
    printed = _run(tree, alone, "any_version", str(asked))
    return json.loads(printed.splitlines()[-1])


def commands(tree: Path, folder: Path) -> dict[str, Any]:
    """`fedci run` and `fedci report` by that tree; processor seconds are those of both."""
    out = folder / f"result-{time.monotonic_ns()}"
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    sites = [word for path in sorted(folder.glob("site-*.csv")) for word in ("--site", f"{path.stem}={path}")]
    _run(tree, None, "fedci", "run", str(folder / "study.toml"), *sites, "--out", str(out), "--quiet")
    _run(tree, None, "fedci", "report", str(out))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    facts = json.loads((out / "result.json").read_text(encoding="utf-8"))
    rounds = len((out / "trace.csv").read_text(encoding="utf-8").splitlines()) - 1
    told = sum(seen["sent"] + seen["received"] for seen in facts["traffic"].values())
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"version": facts["versions"]["fedci"], "cold": time.perf_counter() - start, "cold_cpu": cpu,
            "MB": told / CLI_SITES / 1e6, "rounds": rounds}


def cli_study(folder: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"x{k}" for k in range(CLI_COLUMNS)]
    folder.mkdir(parents=True)
    for k in range(CLI_SITES):
        x = rng.standard_normal((CLI_PEOPLE, CLI_COLUMNS))
        w = (rng.random(CLI_PEOPLE) < 1.0 / (1.0 + np.exp(-x[:, 0] / 2.0))).astype(int)
        y = x[:, 0] + np.sin(x[:, 1]) + w * (1.0 + x[:, 2] / 2.0) + rng.standard_normal(CLI_PEOPLE)
        np.savetxt(folder / f"site-{k}.csv", np.column_stack([x, w, y]), delimiter=",", fmt="%.6g", comments="",
                   header=",".join([*names, "w", "y"]))
    (folder / "study.toml").write_text(
        'treatment = "w"\noutcome = "y"\n'
        f"covariates = {json.dumps(names)}\n[policy]\nname = \"simulation\"\nsecure_sum = true\n", encoding="utf-8")


def _run(tree: Path, also: Path | None, *command: str) -> str:
    paths = os.pathsep.join(str(path) for path in (tree / "src", also) if path)
    done = subprocess.run([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True, check=True,
                          env=os.environ | FRESH | {"PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"})
    return done.stdout


def tree_of(old: str, folder: Path) -> Path:
    """The folder named, or that of a commit of this repository."""
    if (Path(old) / "src" / "fedci").is_dir():
        return Path(old).absolute()
    made = subprocess.run(["git", "-C", str(HERE), "archive", old, "src"], capture_output=True, check=False)
    if made.returncode:
        raise UsageError(f"--old {old}: neither a folder that holds src/fedci nor a commit that git knows here")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def cells(trees: dict[str, Path], studies: Sequence[str], times: int, folder: Path) -> Iterator[Cell]:
    for study in studies:
        place = folder / study
        asked = None if study == CLI else plan(int(study), place)
        if asked is None:
            cli_study(place)
        for number in range(times):
            for which in (OLD, NOW) if number % 2 == 0 else (NOW, OLD):
                found = measure(trees[which], asked) if asked else commands(trees[which], place)
                nothing = dict.fromkeys((*MEASURED, "ate"), np.nan)
                yield Cell(study, which, number, **nothing | found)


def table(done: Sequence[Cell]) -> str:
    """Medians over the times, and the ratio of the new to the old."""
    lines = ["| study | | old | now | ratio |", "|---|---|---:|---:|---:|"]
    for study in dict.fromkeys(cell.study for cell in done):
        both = [[cell for cell in done if (cell.study, cell.which) == (study, which)] for which in (OLD, NOW)]
        for name in MEASURED:
            old, now = (float(np.median([getattr(cell, name) for cell in part])) if part else np.nan for part in both)
            if np.isfinite(old) and np.isfinite(now):
                lines.append(f"| {words_of(study)} | {WORDS[name]} | {old:.3g} | {now:.3g} | {now / old:.2f} |")
    return "\n".join(lines)


def words_of(study: str) -> str:
    return f"`run` and `report`, {CLI_SITES} × {CLI_PEOPLE:,}" if study == CLI else f"DATA-1, {SITES} × {study}, masked"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, help="a folder with the other version's sources, or a commit")
    parser.add_argument("--studies", nargs="+", default=["200", "50", CLI], help=f"people of a site, or {CLI}")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file of cells, a line each; what is there counts")
    asked = parser.parse_args(arguments)
    done = kept.read(asked.out, Cell) if asked.out else []
    with tempfile.TemporaryDirectory() as held:
        trees = {OLD: tree_of(asked.old, Path(held) / "old"), NOW: HERE}
        for cell in cells(trees, asked.studies, asked.times, Path(held)):
            done.append(cell)
            if asked.out:
                kept.add(asked.out, cell)
            print(*(f"{value:.4g}" if isinstance(value, float) else value for value in cell), flush=True)
    print(table(done))


if __name__ == "__main__":
    main()
