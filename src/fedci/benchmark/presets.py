"""`python -m fedci.benchmark.presets`: what the choices of the preset `default` cost and bring, on DATA-1 under P2.

Prints the Markdown table of docs/presets.md: mean over replications for 1, 3 and 5 sources of 50 rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from fedci.benchmark import protocols
from fedci.benchmark.protocols import Score
from fedci.datasets import Split, synthetic

VARIANTS = {
    "default": {},
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


def methods() -> dict[str, Callable[[Sequence[Split]], Score]]:
    def fitted(options, how=protocols.federated):
        return lambda splits: how(splits, protocols.study_of(splits, options))

    return ({name: fitted(options) for name, options in VARIANTS.items()}
            | {"default, each source alone": fitted({}, protocols.local),
               "default, combined rows": fitted({}, protocols.pooled),
               "ridge T-learner, combined rows": protocols.ridge_t_learner})


def measure(method: Callable, data: str, replications: int) -> list[list[Score]]:
    """Scores by number of sources, then replication."""
    return [[method(synthetic(data, r)[:m]) for r in range(replications)] for m in SOURCES]


def row(name: str, scores: list[list[Score]]) -> str:
    def means(field, form):
        values = [np.mean([getattr(s, field) for s in cell]) for cell in scores]
        return "–" if np.isnan(values).any() else " / ".join(format(v, form) for v in values)

    return (f"| {name} | {means('pehe', '.2f')} | {means('ate_error', '.2f')} | {means('coverage', '.2f')} | "
            f"{means('ate_covered', '.1f')} | {means('rounds', '.0f')} |")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.presets", description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=10)
    parser.add_argument("--data", default="DATA-1", choices=("DATA-1", "DATA-2"))
    parser.add_argument("--only", nargs="*", help="names of rows")
    options = parser.parse_args(arguments)
    print("| | √PEHE, 1 / 3 / 5 sources | ATE error | coverage of 95% CATE intervals | of ATE | rounds |")
    print("|---|---|---|---|---|---|")
    for name, method in methods().items():
        if not options.only or name in options.only:
            print(row(name, measure(method, options.data, options.replications)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
