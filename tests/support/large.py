"""A site of 45 people, cut into blocks as a large one is."""

import numpy as np

from fedci.model.families import model_of
from fedci.model.shared import inducing
from fedci.study.options import SharedOptions

ROWS, D = 45, 3


def make(**changes):
    return model_of(SharedOptions(family="shared", knots=3, **changes), D, D, 2)


def some_rows(count=ROWS):
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, D)), (rng.uniform(size=count) < 0.4).astype(int), rng.normal(size=count)


def blocks(model, rows, count=ROWS, block=16):
    return inducing.cut(*rows, np.zeros(4), 0, model.kernel, count, block)
