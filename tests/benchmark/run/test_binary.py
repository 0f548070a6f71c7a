"""Outcomes of 0 and 1, drawn and fitted: data are what their page says, a peer is a logistic regression."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from fedci.benchmark.run import binary


@pytest.mark.parametrize(("name", "events"), [("index", 0.5), ("rare", 0.15), ("null", 0.4), ("interactions", 0.5),
                                              ("heterogeneous", 0.5)])
def test_data_are_as_described(name, events):
    """Over five replications of 500 people; directions are drawn anew, so to 0.08."""
    drawn = [binary.people(name, replication)[0] for replication in range(5)]
    assert np.mean([one.y.mean() for one in drawn]) == pytest.approx(events, abs=0.08)
    assert all(len(one.y) == 500 and set(one.site) == set(range(5)) for one in drawn)
    assert (drawn[0].effect == 0).all() == (name == "null")
    again = binary.people(name, 0)[0]
    np.testing.assert_array_equal(again.y, drawn[0].y)


def test_the_peer_is_a_ridge_logistic_regression_of_each_arm():
    """Against a minimiser of the same penalised likelihood."""
    drawn, new = binary.people("index", 0)
    x = (drawn.x - drawn.x.mean(0)) / drawn.x.std(0)
    at = (new.x - drawn.x.mean(0)) / drawn.x.std(0)
    risks = []
    for arm in (0, 1):
        here = drawn.w == arm
        rows, sign = np.column_stack([np.ones(here.sum()), x[here]]), 2 * drawn.y[here] - 1
        penalty = np.array([0.1] + [5.0] * 10)
        best = minimize(lambda b, rows=rows, sign=sign, penalty=penalty:
                        -log_expit(sign * (rows @ b)).sum() + 0.5 * penalty @ b**2, np.zeros(11), tol=1e-10)
        risks.append(expit(np.column_stack([np.ones(len(at)), at]) @ best.x))
    found = binary.t_learner(drawn, new, 0)
    np.testing.assert_allclose(found.mean, risks[1] - risks[0], atol=1e-4)
    assert np.isnan(found.low).all()


def test_sites_differ_where_they_are_said_to():
    drawn = binary.people("heterogeneous", 1, 400)[0]
    assert np.ptp([drawn.effect[drawn.site == s].mean() for s in range(5)]) > 0.1
