"""A baseline that knows nothing, and one that fails, on the smallest data set."""

import numpy as np

from fedci.benchmark.run import methods, runner
from fedci.benchmark.run.baselines import Estimate
from fedci.benchmark.run.cells import Cell
from fedci.benchmark.run.suites import Choice

LINEAR = Choice(name="linear")


def constant(x, w, y, seed):
    """The difference of means, for everyone; with outcome models and an interval of width 2."""
    mu = [y[w == j].mean() for j in (0, 1)]

    def predict(new):
        ones = np.ones(len(new))
        effect = mu[1] - mu[0]
        return Estimate(cate=effect * ones, low=(effect - 1) * ones, high=(effect + 1) * ones, mu0=mu[0] * ones,
                        mu1=mu[1] * ones, ate=(effect, effect - 1, effect + 1))

    return predict


def broken(x, w, y, seed):
    raise ArithmeticError(f"no fit with {len(y)} rows")


def rows(method, counts=(1, 3), choice=LINEAR, modes=None):
    task = runner.Task(choice=choice, method=method, replication=0, counts=counts,
                       modes=modes or methods.modes_of(method), seed=0)
    return [row for row in runner.perform(task) if isinstance(row, Cell)]
