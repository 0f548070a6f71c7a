"""Counts, drawn and fitted: data are what their page says, a peer is a Poisson regression."""

import numpy as np
import pytest
from scipy.optimize import minimize

from fedci.benchmark.run import rates


@pytest.mark.parametrize("name", list(rates.SETS))
def test_data_are_as_described(name):
    """The crude rate over five replications is that of the people, to a tenth; only what is negative binomial varies
    more than its mean."""
    drawn = [rates.people(name, replication)[0] for replication in range(5)]
    assert (drawn[0].effect == 0).all() == (name == "null")
    assert all((one.y == np.round(one.y)).all() and (one.time > 0).all() for one in drawn)
    rate = np.mean([one.y.sum() / one.time.sum() for one in drawn])
    assert (rate < 0.6) == (name == "few")


def test_the_peer_is_a_ridge_poisson_regression_of_each_arm():
    """Against a minimiser of the same penalised likelihood."""
    drawn, new = rates.people("index", 0)
    found = []
    for arm in (0, 1):
        here = drawn.w == arm
        rows, y, years = np.column_stack([np.ones(here.sum()), drawn.x[here]]), drawn.y[here], drawn.time[here]
        penalty = np.array([0.0] + [5.0] * 5)
        best = minimize(lambda b, rows=rows, y=y, years=years, penalty=penalty:
                        (years * np.exp(rows @ b)).sum() - y @ (rows @ b) + 0.5 * penalty @ b**2,
                        np.zeros(6), tol=1e-10)
        found.append(np.exp(np.column_stack([np.ones(len(new.x)), new.x]) @ best.x))
    np.testing.assert_allclose(rates.t_learner(drawn, new, 0).mean, found[1] - found[0], atol=1e-4)
