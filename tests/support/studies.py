"""A study file with something of everything, and a small study to change."""

from fedci.study.study import Study

EXAMPLE = """
name = "statins"
treatment = "treated"
outcome = "ldl_change"
ids = ["national_id"]
missing = "refuse"
policy = "standard"
preset = "default"
sites = ["lyon", "oslo"]

[covariates.age]
type = "numeric"
range = [0, 120]

[covariates.stage]
type = "categorical"
levels = ["I", "II", "III"]
missing = "impute"

[model]
kernel = "rbf(ard)"

[optimiser]
rounds = 100
"""


def small(**changes) -> Study:
    good = {"treatment": "w", "outcome": "y", "covariates": ["a", "b"], "policy": "simulation"}
    return Study(**good | changes)
