"""Five simulated hospitals from files to effects, with the truth beside the estimates.

    DIR/hospitals/NAME.csv   what each hospital holds        DIR/study.toml   what they agreed on
    DIR/result/              what the study found            DIR/truth.csv    what only a simulation can know
    DIR/result/report.html   the same as a document
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table as Grid

from fedci.cli.progress import round_progress
from fedci.effect import POPULATIONS
from fedci.estimator import FedCI
from fedci.files import check_folder
from fedci.report.page import write_report
from fedci.result.result import Result
from fedci.study.study import Study
from fedci.synthetic.datasets import Records, Split, synthetic
from fedci.table.source import Source

HOSPITALS = ("bergen", "lyon", "oslo", "porto", "turin")


def run_demo(out: str | Path, seed: int = 0, force: bool = False, console: Console | None = None) -> Result:
    """Make the hospitals, run the study over their files, show and write what was found."""
    console = console or Console()
    folder = check_folder(out, force)
    splits = dict(zip(HOSPITALS, synthetic("DATA-1", seed), strict=True))
    study = write_hospitals(folder, splits)
    console.print(f"[bold]Five hospitals[/], {len(splits['lyon'].train)} patients each, in {folder / 'hospitals'}; "
                  f"no hospital sees another's rows.")
    sources = [Source(name, folder / "hospitals" / f"{name}.csv") for name in HOSPITALS]
    with round_progress(console=console) as progress:
        result = FedCI(Study.read(study)).fit(sources, progress=progress)
    result.save(folder / "result", force=True)
    beside_truth = compare(result, splits)
    beside_truth.to_csv(folder / "truth.csv", index=False)
    show(console, result, beside_truth, score(result, splits))
    page = write_report(folder / "result")
    console.print(f"Report: {page} (open it in a browser)")
    console.print(f"Written: {folder / 'result'} (effects.csv, trace.csv, result.json; each hospital's own people in "
                  f"sites/NAME/people.csv) and {folder / 'truth.csv'}.")
    return result


def write_hospitals(folder: Path, splits: dict[str, Split]) -> Path:
    """Each hospital's CSV, and the study file; returns the study file's path."""
    (folder / "hospitals").mkdir(parents=True, exist_ok=True)
    for name, split in splits.items():
        split.train.frame().to_csv(folder / "hospitals" / f"{name}.csv", index=False)
    covariates = next(iter(splits.values())).train.names
    study = Study(name="demo", treatment="w", outcome="y", covariates=covariates, policy="simulation",
                  sites=tuple(splits))
    study.write(folder / "study.toml")
    return folder / "study.toml"


def compare(result: Result, splits: dict[str, Split]) -> pd.DataFrame:
    """`result.table()` and the true average of the same people's expected effects; is it in the interval?"""
    table = result.table()
    truth = [_true_average([splits[s].train for s in (splits if row.site == "all" else [row.site])], row.estimand)
             for row in table.itertuples()]
    return table.assign(truth=truth, covered=(table.low <= truth) & (truth <= table.high))


def _true_average(people: list[Records], estimand: str) -> float:
    weights = next(np.array(population.weights) for population in POPULATIONS if population.estimand == estimand)
    return float(np.mean(np.concatenate([p.cate[weights[p.w.astype(int)] > 0] for p in people])))


def score(result: Result, splits: dict[str, Split]) -> dict[str, float]:
    """√PEHE, coverage and width of the 95% CATE intervals on patients that were not in the fit."""
    errors, covered, widths = [], [], []
    for name, split in splits.items():
        effect = result.effect_posterior(split.test.frame(), site=name)
        low, high = effect.interval(0.05)
        errors.append((effect.mean - split.test.cate) ** 2)
        covered.append((low <= split.test.cate) & (split.test.cate <= high))
        widths.append(high - low)
    return {"√PEHE": float(np.sqrt(np.mean(errors))), "coverage": float(np.mean(covered)),
            "width": float(np.mean(widths)), "spread": float(np.std([s.test.cate for s in splits.values()]))}


def show(console: Console, result: Result, beside_truth: pd.DataFrame, scores: dict[str, float]) -> None:
    grid = Grid(title="Average effects beside the known truth")
    for name in ("estimand", "site", "people"):
        grid.add_column(name)
    for name in ("mean", "sd", "95% interval", "truth", "covered"):
        grid.add_column(name, justify="right")
    for row in beside_truth[beside_truth.estimand != "ATC"].itertuples():
        grid.add_row(row.estimand, row.site, str(row.people), f"{row.mean:.2f}", f"{row.sd:.2f}",
                     f"{row.low:.2f} to {row.high:.2f}", f"{row.truth:.2f}", "yes" if row.covered else "no")
    console.print(grid)
    fit = result.outcome.fit
    console.print(f"Effects of {450 * len(result.sites)} new patients: √PEHE {scores['√PEHE']:.2f} (their true effects "
                  f"have sd {scores['spread']:.2f}); 95% intervals cover {100 * scores['coverage']:.0f}%, mean width "
                  f"{scores['width']:.2f}.")
    console.print(f"The fit {fit.verdict}: {len(fit.rounds)} rounds, "
                  f"{sum(result.outcome.seconds.values()):.1f} s, "
                  f"{sum(t.sent + t.received for t in result.traffic.values()) / 1e6 / len(result.sites):.2f} MB per "
                  f"hospital.")
    for text in result.warnings():
        console.print(f"[yellow]warning:[/] {text}")
