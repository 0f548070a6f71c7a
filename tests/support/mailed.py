"""A study by files: kits, three small sites that share people, and the two commands in turns, all in this process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd

from fedci import Result, Study
from fedci.mail.answering import Answered, answer
from fedci.mail.asking import Standing, go_on
from fedci.network.provision import COORDINATOR, new_by_files
from fedci.site import floors
from tests_support import frame, study

SITES = ("lyon", "oslo", "turin")
SECURE = {"name": "simulation", "secure_sum": "auto"}
FEW = {"optimiser": {"rounds": 3}, "prediction": {"draws": 16}}
TWICE = 6
"""People of each site who are at the next one as well."""


def plan(**changes) -> Study:
    """Under masks, of the quickest preset."""
    return study(**({"sites": SITES, "policy": SECURE, "options": FEW, "ids": ["pid"]} | changes))


def tables() -> dict[str, pd.DataFrame]:
    made = {site: frame(34, number).assign(pid=[f"{site}-{i}" for i in range(34)]) for number, site in enumerate(SITES)}
    after = dict(zip(SITES, (*SITES[1:], SITES[0]), strict=True))
    return {site: pd.concat([table, *(made[one].iloc[:TWICE] for one in SITES if after[one] == site)],
                            ignore_index=True) for site, table in made.items()}


class Mailed:
    """Kits, data and folders of a study by files below one folder. `stores`: of an earlier study, whose sites have
    told already."""

    def __init__(self, out: Path, agreed: Study, data: dict[str, pd.DataFrame] | None = None,
                 stores: Path | None = None):
        self.out, self.study, self.stores = out, agreed, stores or out
        self.kits = new_by_files(agreed, (), out / "kits")
        self.data = data or tables()
        for site, table in self.data.items():
            (out / site).mkdir()
            table.to_csv(out / site / "cohort.csv", index=False)
        floors.write_floors(floors.based_on("simulation", "drawn at random"), out / "kits" / floors.FILE)
        self.answers, self.requests, self.result = out / "answers", out / "requests", out / "result"
        self.answers.mkdir()

    def copied(self, out: Path) -> Mailed:
        """As it stands, for a test that spoils it."""
        shutil.copytree(self.out, out, dirs_exist_ok=True)
        other = object.__new__(Mailed)
        other.out, other.study, other.data, other.stores = out, self.study, self.data, out
        other.kits = {party: out / "kits" / party for party in self.kits}
        other.answers, other.requests, other.result = out / "answers", out / "requests", out / "result"
        return other

    def next(self, **more) -> Standing:
        answers = more.pop("answers", self.answers)
        return go_on(self.kits[COORDINATOR], answers, self.requests, self.result, **more)

    def answer(self, site: str, request: Path, out: Path | None = None, **more) -> Answered:
        data = more.pop("data", self.out / site / "cohort.csv")
        return answer(self.kits[site], str(data), request, out or self.answers, keep=self.stores / site / "store",
                      **more)

    def go(self, steps: int = 10**6, first: Standing | None = None, **more) -> Standing:
        """So many exchanges, or to the result."""
        stands = first or self.next(**more)
        while stands.result is None and steps:
            for site, path in stands.requests.items():
                self.answer(site, path)
            stands, steps = self.next(**more), steps - 1
        return stands

    def files(self, party: str) -> dict[str, bytes]:
        """All that a kit holds, and of a site its store: to compare before and after. Locks and events apart."""
        paths = [path for folder in (self.kits[party], self.out / party / "store") for path in folder.rglob("*")]
        return {str(path.relative_to(self.out)): path.read_bytes() for path in paths if path.is_file()
                and not path.name.startswith(("command-", "events", "lock", "site.log"))}

    def found(self) -> Result:
        return Result.load(self.result)
