"""Rows from Gram matrices: a listener's attack on what a fit of the model `shared` tells, the bound, and the price.

    python assurance/gram.py record --people 60,55,65 --out told.npz         a masked study, as its coordinator heard it
    python assurance/gram.py record --people 40 --clear --out told.npz       one site in the clear
    python assurance/gram.py attack told.npz --known nothing --starts 8 --out attack.json
    python assurance/gram.py bound --people 150,500 --draws 1,4,16 --tau 0,1e-3,1e-1 --out bound.json
    python assurance/gram.py price --people 150,500 --tau 1e-3,1e-1 --out price.json
    python assurance/gram.py table bound.json                                as docs/assurance.md has it
    python assurance/gram.py rule person.json                                the noise that protects, and its price
    python assurance/gram.py count --policy standard --people 60,60,60       people recovered under a policy, for run.py

Nothing here needs a processor of a kind: on a machine with a GPU, JAX takes it (`JAX_PLATFORMS=cuda`).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import gram_bound
import numpy as np
from gram_attack import Plan, attacked, each_person, free_entries, outcomes, score
from gram_record import Recorded, planned, recorded
from gram_told import Told

from fedci.errors import FedciError
from fedci.model.families import model_of

ARRAYS = "thetas", "truth", "steps", "centre", "spread"
TAUS = "0,1e-6,1e-4,1e-3,1e-2,1e-1,3e-1"


def whole(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


# --- files

def save(path: Path, found: Recorded) -> None:
    arrays = {name: getattr(found, name) for name in ("sizes", "treated", *ARRAYS)}
    np.savez(path, covariates=found.model.covariates, gram=found.told.gram, log_det=found.told.log_det, **arrays)


def load(path: Path) -> Recorded:
    with np.load(path, allow_pickle=False) as kept:
        d, sizes = int(kept["covariates"]), tuple(kept["sizes"].tolist())
        model = model_of(planned(d, True).fit_options().model, d, d, len(sizes))
        told = Told(kept["gram"], kept["log_det"])
        return Recorded(model=model, sizes=sizes, treated=int(kept["treated"]), told=told,
                        **{name: kept[name] for name in ARRAYS})


def written(out: Path | None, lines: Iterable[Any]) -> None:
    """Each line on the screen as it comes, all so far in the file."""
    rows = []
    for line in lines:
        rows.append(line._asdict())
        print(json.dumps(rows[-1]), flush=True)
        if out is not None:
            out.write_text(json.dumps(rows, indent=1), encoding="utf-8")


# --- commands

def do_record(how: argparse.Namespace) -> None:
    began = time.perf_counter()
    found = recorded(tuple(how.people), how.covariates, not how.clear, how.rounds, how.seed)
    save(how.out, found)
    print(f"{len(found.thetas)} draws told, in {time.perf_counter() - began:.0f} s")


def do_attack(how: argparse.Namespace) -> None:
    at = load(how.told)
    plan = Plan(**{field.name: getattr(how, field.name) for field in fields(Plan)})
    began, free = time.perf_counter(), free_entries(at, "nothing" if how.known == "person" else how.known)
    if how.known == "outcomes":
        rows = outcomes(at, plan)
    elif how.known == "person":
        some = np.random.default_rng(how.seed).permutation(len(at.truth))[:how.of].tolist()
        rows = each_person(at, some, plan)
        free = np.zeros_like(free)
        free[some] = True
    else:
        rows = attacked(at, free, plan).rows
    told = {"sizes": at.sizes, "known": how.known, "draws": min(plan.draws, len(at.thetas)), "tau": plan.tau,
            "shape": plan.shape, "starts": plan.starts, "moves": plan.moves}
    found = told | score(rows, at, free, paired=how.known != "nothing")._asdict()
    found["seconds"] = round(time.perf_counter() - began, 1)
    print(json.dumps(found))
    if how.out is not None:
        earlier = json.loads(how.out.read_text()) if how.out.exists() else []
        how.out.write_text(json.dumps([*earlier, found], indent=1), encoding="utf-8")


def heard(how: argparse.Namespace) -> Recorded:
    """A fit whose θs are asked about: of a file, or of three sites of 50 in this process."""
    return load(how.thetas) if how.thetas else recorded((50,) * how.sites, how.covariates, True, how.rounds, how.seed)


def do_bound(how: argparse.Namespace) -> None:
    fit = heard(how)
    written(how.out, (line for shape in how.shape.split(",") for people in how.people
                      for line in gram_bound.lines(fit.model, fit.thetas, people, how.sites, how.draws, how.tau, shape,
                                                   tuple(how.known.split(",")), clip=how.clip)))


def do_price(how: argparse.Namespace) -> None:
    fit = heard(how)
    written(how.out, (line for shape in how.shape.split(",") for people in how.people
                      for line in gram_bound.prices(fit.model, fit.thetas, people, how.sites, how.tau, shape)))


def do_table(how: argparse.Namespace) -> None:
    """Noise downwards, draws across: people known to 0.1 sd / to 0.3 sd in every unknown column."""
    lines = json.loads(how.bound.read_text())
    for key in dict.fromkeys((line["shape"], line["people"], line["known"]) for line in lines):
        some = [line for line in lines if (line["shape"], line["people"], line["known"]) == key]
        draws = sorted({line["draws"] for line in some})
        print(f"\n{key[1]} people, known: {key[2]}, noise by {key[0]}\n")
        print("| τ | " + " | ".join(f"{count} draws" for count in draws) + " |\n|---:" + "|---:" * len(draws) + "|")
        for tau in sorted({line["tau"] for line in some}):
            cells = {line["draws"]: f"{line['to_01']} / {line['to_03']}" for line in some if line["tau"] == tau}
            print(f"| {tau:g} | " + " | ".join(cells[count] for count in draws) + " |")


def do_rule(how: argparse.Namespace) -> None:
    """The noise τ at which nobody's column is known to 0.3 sd by one who knows all else, for the typical person, for
    95 % and for all; and the price of each, τ√n posterior sds."""
    print("| people | draws | typical: τ | price | 95 %: τ | price | all: τ | price | noise by |")
    print("|" + "---:|" * 8 + "---|")
    for line in json.loads(how.bound.read_text()):
        if line["known"] == "person" and line["tau"] == how.tau:
            needed = [(line[own] / (gram_bound.LEVELS[1] ** -2 - 1.0)) ** 0.5 for own in ("own", "own_95", "own_most")]
            cells = [f"{tau:.2g} | {tau * line['people'] ** 0.5:.2f}" for tau in needed]
            print(f"| {line['people']} | {line['draws']} | " + " | ".join(cells) + f" | {line['shape']} |")


def do_count(how: argparse.Namespace) -> None:
    """One line of JSON: the study as the policy has it, attacked by one who knows nothing and one who knows all but a
    column; a study that is refused tells nothing."""
    try:
        at = recorded(tuple(how.people), how.covariates, True, seed=how.seed, policy=how.policy)
    except FedciError as problem:
        print(json.dumps({"people": sum(how.people), "recovered": 0, "note": f"refused: {str(problem)[:90]}"}))
        return
    scores = [score(attacked(at, free, Plan(starts=how.starts, moves=how.moves)).rows, at, free)
              for free in (free_entries(at, known) for known in ("nothing", "column"))]
    beyond = [max(0, found.near - math.ceil(found.chance_near + 3.0 * found.chance_near**0.5)) for found in scores]
    note = "; ".join(f"{known}: {found.near} within 0.1 sd, shuffled {found.chance_near:.0f}"
                     for known, found in zip(("nothing known", "all but a column"), scores, strict=True))
    print(json.dumps({"people": sum(how.people), "recovered": max(beyond), "note": note}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)

    def command(name: str, does: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        made = commands.add_parser(name)
        made.set_defaults(does=does)
        made.add_argument("--seed", type=int, default=0)
        made.add_argument("--out", type=Path, default=None, required=name == "record")
        return made

    record = command("record", do_record)
    record.add_argument("--people", type=whole, default=[60, 55, 65], help="of each site")
    record.add_argument("--covariates", type=int, default=3, choices=range(1, 5))
    record.add_argument("--clear", action="store_true", help="no masks; one site alone is seen as it is")
    record.add_argument("--rounds", type=int, default=None)
    attack = command("attack", do_attack)
    attack.add_argument("told", type=Path)
    attack.add_argument("--known", default="nothing", choices=["nothing", "column", "person", "outcomes"])
    attack.add_argument("--of", type=int, default=10, help="people looked for, each with all others known")
    for field in fields(Plan):
        if field.name != "seed":
            attack.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    for name, does in (("bound", do_bound), ("price", do_price)):
        made = command(name, does)
        made.add_argument("--people", type=whole, default=[150, 500], help="in total")
        made.add_argument("--sites", type=int, default=3)
        made.add_argument("--covariates", type=int, default=3, choices=range(1, 5))
        made.add_argument("--draws", type=whole, default=[1, 4, 16, 96, 960])
        made.add_argument("--tau", type=numbers, default=numbers(TAUS))
        made.add_argument("--shape", default="entry,sampling")
        made.add_argument("--known", default="nothing,column,person")
        made.add_argument("--clip", type=float, default=math.inf, help="columns are cut at ± so many sds")
        made.add_argument("--thetas", type=Path, default=None, help="of a recorded fit; none: one is run")
        made.add_argument("--rounds", type=int, default=None)
    table = command("table", do_table)
    table.add_argument("bound", type=Path)
    rule = command("rule", do_rule)
    rule.add_argument("bound", type=Path)
    rule.add_argument("--tau", type=float, default=0.01, help="any of the file: nothing depends on it")
    count = command("count", do_count)
    count.add_argument("--people", type=whole, default=[60, 60, 60])
    count.add_argument("--covariates", type=int, default=3, choices=range(1, 5))
    count.add_argument("--policy", default="standard")
    count.add_argument("--starts", type=int, default=2)
    count.add_argument("--moves", type=int, default=2)
    how = parser.parse_args()
    how.does(how)


if __name__ == "__main__":
    main()
