"""A newcomer's first hour, as typed on an empty machine: from nothing to the report of a study by files.

    python release/first_hour.py BIN      BIN: the folder of the programs of an environment (release/readme.py)

Three hospitals of nobody; a study proposed and checked; its plan; each site's own policy; kits; letters back and forth
between four parties, each with its own folder and store; the result as HTML, Word and JSON, and whether the document
says the result's numbers; what left, and whether it comes out of the data again. The study is fitted in two rounds: it
is the commands that are tried, not the fit.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

SITES = "lyon", "oslo", "turin"
SHORT = "\n[optimiser]\nrounds = 2\n\n[prediction]\ndraws = 16\n\n[diagnostics]\nenabled = false\n"
BEFORE = """
fedci --version
fedci simulate --out hospitals --rows 60
fedci init hospitals/lyon.csv --policy simulation --out study.toml
fedci site policy --base simulation --reason 'simulated people'
fedci check study.toml hospitals/lyon.csv
"""
KITS = """
fedci protocol study.toml --out plan.docx
fedci network new study.toml --site lyon --site oslo --site turin --files
fedci site check --kit kits/lyon --data hospitals/lyon.csv --policy site-policy.toml
"""
NEXT = "fedci coordinator next --kit kits/coordinator answers --out requests --result result"
ANSWER = ("fedci site answer {request} --kit kits/{site} --data hospitals/{site}.csv --out answers "
          "--store store-{site} --policy site-policy.toml")
AFTER = """
fedci show result
fedci report result
fedci report result --out report.docx
fedci ledger kits/lyon
fedci ledger verify kits/lyon --data hospitals/lyon.csv
fedci site store show --store store-lyon
"""
WHOM = {"ATE": "everybody", "ATT": "the treated", "ATC": "the untreated"}
CELL = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MOST = 60
"""Exchanges after which a study of two rounds has gone astray."""


class Machine:
    """A folder, and the programs of one environment."""

    def __init__(self, folder: Path, programs: Path):
        outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        self.folder = folder
        self.known = outside | {"PATH": f"{programs}:{outside['PATH']}", "FEDCI_SITE_STORE": f"{folder}/store"}

    def type(self, lines: str) -> None:
        """Each line says something and ends well; else SystemExit with what it said."""
        for line in filter(None, lines.splitlines()):
            self.said(line)

    def said(self, line: str) -> str:
        print(f"$ {line}", flush=True)
        done = subprocess.run(shlex.split(line), cwd=self.folder, env=self.known, capture_output=True, text=True,
                              check=False)
        if done.returncode or not done.stdout.strip():
            raise SystemExit(f"failed: {line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def newest(self) -> dict[str, str]:
        """Site → its newest request that it has not answered: coordinators write the next when all have."""
        found: dict[str, tuple[int, str]] = {}
        for path in (self.folder / "requests").glob("*/request-*.fedci"):
            step, site = int(re.findall(r"\d+", path.stem)[-1]), path.parent.name
            found[site] = max(found.get(site, (0, "")), (step, f"requests/{site}/{path.name}"))
        last = max((step for step, _ in found.values()), default=0)
        return {site: path for site, (step, path) in sorted(found.items()) if step == last}


def rows_of(document: Path) -> list[list[str]]:
    """The cells of each row of each table of a Word document, as a reader sees them."""
    with zipfile.ZipFile(document) as word:
        text = ElementTree.fromstring(word.read("word/document.xml"))
    return [["".join(part.text or "" for part in cell.iter(f"{CELL}t")) for cell in row.iter(f"{CELL}tc")]
            for row in text.iter(f"{CELL}tr")]


def missing(rows: Sequence[Sequence[str]], effects: Sequence[dict[str, Any]]) -> list[str]:
    """The average effects of `fedci show --json` that no row says: whom they are over, site, people, and effect, sd and
    interval to the digits that are shown."""
    return [f"{one['estimand']} at {one['site']}" for one in effects if not any(_says(row, one) for row in rows)]


def _says(row: Sequence[str], effect: dict[str, Any]) -> bool:
    if list(row[:3]) != [WHOM[effect["estimand"]], effect["site"], f"{effect['people']:,}"]:
        return False
    shown = re.findall(r"-?\d[\d,]*(?:\.\d+)?", " ".join(row[3:]).replace("\N{MINUS SIGN}", "-"))
    known = [effect[name] for name in ("mean", "sd", "low", "high")]
    return len(shown) == len(known) and all(_rounds_to(number, one) for number, one in zip(shown, known, strict=True))


def _rounds_to(shown: str, number: float) -> bool:
    """Within half of its last digit."""
    digits = len(shown.partition(".")[2])
    return abs(float(shown.replace(",", "")) - number) <= 0.5001 * 10.0**-digits


def walk(folder: Path, programs: Path) -> None:
    machine = Machine(folder, programs)
    machine.type(BEFORE)
    study = folder / "study.toml"
    quick = study.read_text(encoding="utf-8").replace('preset = "default"', 'preset = "classic"')
    study.write_text(quick + SHORT, encoding="utf-8")
    machine.type(KITS)
    (folder / "answers").mkdir()
    machine.type(NEXT)
    for _ in range(MOST):
        for site, request in machine.newest().items():
            machine.type(ANSWER.format(site=site, request=request))
        machine.type(NEXT)
        if (folder / "result").exists():
            break
    machine.type(AFTER)
    with zipfile.ZipFile(folder / "report.docx") as word:
        if b"TARGET" not in word.read("word/document.xml"):
            raise SystemExit("the report in Word has no checklist")
    told = json.loads(machine.said("fedci show result --json"))
    if lacks := missing(rows_of(folder / "report.docx"), told["effects"]):
        raise SystemExit(f"the report in Word does not say what the result does: {', '.join(lacks)}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        walk(Path(folder), Path(sys.argv[1]).absolute())
    print("From an empty folder to a report: done")


if __name__ == "__main__":
    main()
