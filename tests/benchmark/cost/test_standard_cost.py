"""What `standard` costs: all ways on the same people, those that are refused passed over, nothing fitted twice."""

import numpy as np
import pandas as pd
import pytest

from fedci.benchmark.cost import standard_cost
from fedci.benchmark.cost.standard_cost import MAKERS, SIMULATION, STANDARD, STROKE_TRIAL, WAYS, Cell, Way, cells
from fedci.errors import DisclosureError
from fedci.study.policy import POLICIES

DATA = next(iter(MAKERS))


def cell(replication, way, pehe=1.0):
    return Cell(DATA, replication, *way, 5, 1000, pehe, 0.1, 0.1, 0.9, 0.05, 0.95, 1, 0.1, 1.0)


@pytest.fixture
def asked(monkeypatch):
    """(replication, way) of all fits, which are not made; of replication 1 `standard` refuses the sites."""
    found = []

    def fitted(data, splits, replication, way):
        if replication == 1:
            raise DisclosureError("sites differ")
        found.append((replication, way))
        return cell(replication, way)

    monkeypatch.setattr(standard_cost, "simulated", fitted)
    monkeypatch.setitem(MAKERS, DATA, (lambda replication, sizes: [], 10))
    return found


def test_the_way_called_standard_is_the_policy_of_that_name_and_simulation_the_other():
    study = STANDARD.study(treatment="w", outcome="y", covariates=["a"])
    assert study.policy == POLICIES["standard"]
    assert (study.policy.sum_noise, study.policy.outcome_noise) == STANDARD[1:]
    assert SIMULATION.study(treatment="w", outcome="y", covariates=["a"]).policy == POLICIES["simulation"]
    assert len(set(WAYS)) == len(WAYS)


def test_another_noise_is_a_policy_of_another_name():
    study = Way("standard", 0.25, 0.3).study(treatment="w", outcome="y", covariates=["a"])
    assert (study.policy.name, study.policy.sum_noise, study.policy.outcome_noise) == ("custom", 0.25, 0.3)


def test_what_is_there_is_not_fitted_again_and_refused_sites_are_passed_over(asked, capsys):
    done = [cell(0, way) for way in WAYS if way != SIMULATION]
    list(cells(range(3), [DATA], None, WAYS, done))
    assert asked == [(0, SIMULATION), *((2, way) for way in WAYS)]
    assert "replication 1: sites differ" in capsys.readouterr().out


def test_of_simulation_alone_only_what_standard_admitted(asked):
    list(cells(range(4), [DATA], None, [SIMULATION], [cell(3, STANDARD)]))
    assert asked == [(3, SIMULATION)]


def test_small_sites_say_how_many_people_are_needed():
    words = standard_cost.refusal()
    assert "5 sites like this one have 1,000" in words
    assert "Would be accepted: 1,923 people here" in words


@pytest.mark.slow
def test_the_trial_has_an_average_and_no_truth():
    rng = np.random.default_rng(0)
    n = 4000
    rows = pd.DataFrame({"country": rng.choice(["a", "b", "c"], n), "aspirin": rng.integers(0, 2, n),
                         "age": rng.normal(70, 10, n), "pressure": rng.normal(160, 20, n),
                         "delay": rng.uniform(0, 48, n), **{name: rng.integers(0, 2, n) for name in
                                                            standard_cost.BINARY}})
    found = standard_cost.stroke(rows.assign(days=rows.age + rng.normal(0, 10, n)), Way("standard", 0.25, 0.1))
    assert found[:5] == (STROKE_TRIAL, 0, "standard", 0.25, 0.1)
    assert np.isfinite([found.ate, found.ate_sd]).all()
    assert np.isnan([found.pehe, found.own, found.ate_error]).all()
