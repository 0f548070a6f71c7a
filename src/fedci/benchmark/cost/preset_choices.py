"""`python -m fedci.benchmark.cost.preset_choices`: what each choice of the preset `classic` brings, on DATA-1 under P2.

Prints the Markdown table of docs/presets.md: mean over replications for 1, 3 and 5 sources of 50 rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedci.benchmark.run import methods
from fedci.benchmark.run.methods import Fits, Outcome, Variant
from fedci.benchmark.run.protocols import Answer, scores
from fedci.synthetic.datasets import Split, combined, synthetic

VARIANTS: dict[str, dict[str, Any]] = {
    "classic": {},
    "weight_sd 0.05": {"model": {"weight_sd": 0.05}},
    "weight_sd 0.3": {"model": {"weight_sd": 0.3}},
    "hyper_sd 1": {"model": {"hyper_sd": 1.0}},
    "kernel with ARD": {"model": {"kernel": "matern52(ard, scale)"}},
    "kernel rbf": {"model": {"kernel": "rbf(scale)"}},
    "no inter-dependency": {"model": {"inter_dependency": False}},
    "16 draws": {"optimiser": {"draws": 16}},
    "Adam, 300 rounds": {"optimiser": {"name": "adam", "learning_rate": 0.03, "rounds": 300}},
    "Adagrad, 300 rounds": {"optimiser": {"name": "adagrad", "learning_rate": 0.1, "rounds": 300}},
    "gradient ascent, 300 rounds": {"optimiser": {"name": "ascent", "learning_rate": 1e-4, "rounds": 300}},
}
SOURCES = (1, 3, 5)


Figures = dict[str, float]


def rows_of_table() -> dict[str, Callable[[Sequence[Split]], Figures]]:
    def fitted(options: dict[str, Any], mode: str = "fed") -> Callable[[Sequence[Split]], Figures]:
        return lambda splits: figures(Variant("classic", options), splits, mode)

    return ({name: fitted(options) for name, options in VARIANTS.items()}
            | {"classic, each source alone": fitted({}, "loc"), "classic, combined rows": fitted({}, "com"),
               "ridge T-learner, combined rows": ridge_t_learner})


def figures(variant: Variant, splits: Sequence[Split], mode: str = "fed") -> Figures:
    """P2 of FedCI on one replication."""
    return _scored(methods.fedci(variant, Fits(splits, seed=0), mode, len(splits)), splits)


def _scored(outcome: Outcome, splits: Sequence[Split]) -> Figures:
    return scores(outcome.answers, splits, outcome.averages)["P2"] | dict(outcome.cost)


def ridge_t_learner(splits: Sequence[Split]) -> Figures:
    """Two ridge regressions on the combined rows, penalty by leave-one-out: the least any method must beat."""
    rows = combined([split.train for split in splits])
    arms = [_ridge(rows.x[rows.w == j], rows.y[rows.w == j]) for j in (0, 1)]
    return _scored(Outcome([Answer(arms[1](split.test.x) - arms[0](split.test.x)) for split in splits]), splits)


def _ridge(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Ridge on centred, scaled columns; the penalty with the least leave-one-out error of a grid."""
    centre, scale, level = x.mean(0), x.std(0) + 1e-12, y.mean()
    u, s, vt = np.linalg.svd((x - centre) / scale, full_matrices=False)
    shares = [s**2 / (s**2 + penalty) for penalty in np.logspace(-2, 4, 25)]
    coefficients = u.T @ (y - level)

    def left_out(share: np.ndarray) -> float:
        leverage = np.sum(u**2 * share, 1) + 1.0 / len(y)
        return float(np.mean(((y - level - u @ (share * coefficients)) / (1.0 - np.minimum(leverage, 0.999))) ** 2))

    best = min(shares, key=left_out)
    beta = vt.T @ (best * coefficients / s)
    return lambda new: level + (new - centre) / scale @ beta


def measure(method: Callable[..., Any], data: str, replications: int) -> list[list[Figures]]:
    """Figures by number of sources, then replication."""
    return [[method(synthetic(data, r)[:m]) for r in range(replications)] for m in SOURCES]


def row(name: str, cells: list[list[Figures]]) -> str:
    def means(field: str, form: str) -> str:
        values = [np.mean([figures.get(field, np.nan) for figures in cell]) for cell in cells]
        return "–" if np.isnan(values).any() else " / ".join(format(v, form) for v in values)

    return (f"| {name} | {means('pehe', '.2f')} | {means('ate_error', '.2f')} | {means('coverage', '.2f')} | "
            f"{means('ate_covered', '.1f')} | {means('rounds', '.0f')} |")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.cost.preset_choices",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=10)
    parser.add_argument("--data", default="DATA-1", choices=("DATA-1", "DATA-2"))
    parser.add_argument("--only", nargs="*", help="names of rows")
    options = parser.parse_args(arguments)
    print("| | √PEHE, 1 / 3 / 5 sources | ATE error | coverage of 95% CATE intervals | of ATE | rounds |")
    print("|---|---|---|---|---|---|")
    for name, method in rows_of_table().items():
        if not options.only or name in options.only:
            print(row(name, measure(method, options.data, options.replications)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
