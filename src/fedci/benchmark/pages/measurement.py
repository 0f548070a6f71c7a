"""How it was measured, in words: errors, protocols, modes, data sets and settings."""

from __future__ import annotations

from collections.abc import Sequence

from fedci.benchmark.pages.markdown import title

ERRORS_IN_WORDS = """\
How far the estimates of FedCI and of other methods are from the truth, on data whose truth is known. Lower is better,
for **√PEHE**, the root mean square error of the effects of single people, as for the **ATE error**, the absolute error
of their average. Both are over the test people of all sources in use, whom no fit has seen.
"""
PROTOCOLS_IN_WORDS = """\
What is scored, and what a method may see of a test person:

| | truth | a method sees | |
|---|---|---|---|
| P1, imputation | realised effect y(1) − y(0) | covariates, own outcome | the paper's FedCI rows; noise floor 1 |
| P2, expected effects (CATE) | μ₁(x) − μ₀(x) | covariates | what a user means by an effect: **the headline** |
| P3, blind | realised effect y(1) − y(0) | covariates | the paper's baseline rows; noise floor √2 |

The noise floor is what √PEHE is on average for a method that knows the expected effects: outcomes have noise of sd 1.
"""
MODES_IN_WORDS = """\
*fed*: all sources in one federated fit, rows stay where they are. *com*: one fit on the combined rows, which privacy
forbids. *loc*: each source alone. *agg*: each source alone, and their estimates for a person averaged. With one source
these are the same fit.
"""
SETTINGS_IN_WORDS = """\
Those of the baselines were looked at on replications 1-3 of DATA-1 and DATA-2. `FedCI` runs with the preset `default`,
`FedCI (classic)` and `FedCI (paper)` with those presets ([the presets](../presets.md)). The *parametric limit* fits the
true form of the data on the combined rows, with the laws its parameters were drawn from as priors.
"""
DESCRIPTIONS = {
    "data-1": "the paper's first simulation: 20 covariates, softplus outcomes, five sources, 50 rows each to fit on",
    "data-2": "as DATA-1, with outcomes and effects on a much larger scale",
    "ihdp": "747 children of a real trial with simulated outcomes, three sources of 83 rows to fit on, cut in file "
            "order as the paper's authors did",
    "ihdp-shuffled": "the children of IHDP, shuffled before they are cut",
    "ihdp-sites": "the children of IHDP at the trial's eight real sites",
    "ihdp-causalrff": "IHDP in the thirds of file order, as the authors of CausalRFF cut them: 50 rows to fit on and "
                      "100 to test on",
    "ihdp-missing": "IHDP in six sources of 80 rows to fit on, as the authors of CausalFI cut them; of four covariates "
                    "0.3% (replicate 9) to 93% (replicate 3) of the values are missing; the test people of all six "
                    "sources are scored, also of those that are not fitted. FedCI and every peer fill a missing value "
                    "with the mean and mark it in a column more",
    "heterogeneous": "sites that differ in their people, in whom they treat and in how well treatment works",
    "overlap": "treatment nearly decided by the covariates, and confounded",
    "linear": "outcome and effect linear in the covariates",
    "steps": "outcome and effect jump, as a tree would have it",
    "many-directions": "sixteen directions matter, with 250 rows to find them",
    "own-surfaces": "every site has an outcome and an effect of a shape of its own",
    "interactions": "products of covariates and kinks carry outcome and effect",
    "null": "no effect for anyone: what is found here is a false alarm",
}


def description(dataset: str) -> str:
    """A variation says which data set it varies."""
    name = dataset.split("/")[0]
    if name != dataset:
        return f"a variation of {title(name)}"
    return DESCRIPTIONS.get(name, "not described")


def dataset_list(datasets: Sequence[str]) -> str:
    return "".join(f"- *{title(dataset)}*: {description(dataset)}.\n" for dataset in datasets)
