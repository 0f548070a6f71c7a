"""A site's completed copies: what is known stays as it is in each, and what few lack is the mean in all of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedci import FedCI, Source
from fedci.site import copies
from fedci.site.prepared import Units
from support.doors import plan

ROWS, LEAST = 60, 5


def units(columns: int = 2) -> Units:
    return Units(x_mean=np.full(columns, 2.0), x_sd=np.full(columns, 4.0), y_mean=0.0, y_sd=1.0,
                 indicators=np.zeros(columns, bool), marked=False)


def people(gaps: dict[int, int]) -> SimpleNamespace:
    """So many of the treated lack each column; of the untreated as many."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(2.0, 4.0, (ROWS, 2)), np.arange(ROWS) % 2.0
    for column, lacking in gaps.items():
        for arm in (0, 1):
            x[np.flatnonzero(w == arm)[:lacking], column] = np.nan
    return SimpleNamespace(x=x, w=w, y=rng.normal(size=ROWS), site="lyon")


@pytest.mark.parametrize(("lacking", "is_drawn"), [(LEAST - 1, False), (LEAST, True)])
def test_what_few_of_an_arm_lack_is_the_mean(lacking, is_drawn):
    table = people({0: lacking, 1: 2 * LEAST})
    v, keys = copies.known_of(units(), table, LEAST)
    gaps = np.isnan(table.x)
    assert np.isnan(v[gaps[:, 0], 0]).all() == is_drawn
    assert is_drawn or not v[gaps[:, 0], 0].any()  # 0: the pooled mean, in the model's units
    assert np.isnan(v[gaps[:, 1], 1]).all()
    np.testing.assert_allclose(v[:, :2][~gaps], ((table.x - 2.0) / 4.0)[~gaps])
    np.testing.assert_array_equal(keys, units().known(table.x, table.w, table.y)[1])


def test_where_nothing_is_drawn_the_rows_are_as_they_were():
    ready = object()
    assert copies.rows_of(ready, units(), people({0: 20}), 0, LEAST) is ready


@pytest.fixture(scope="module")
def fitted():
    import pandas as pd

    tables = {}
    for number, name in enumerate(("lyon", "oslo", "turin")):
        rng = np.random.default_rng((number, 5))
        age, w = rng.normal(60.0, 9.0, ROWS), np.arange(ROWS) % 2
        bmi = np.where(rng.random(ROWS) < 0.4, np.nan, 0.2 * age + rng.normal(14.0, 2.0, ROWS))
        tables[name] = pd.DataFrame({"age": age, "bmi": bmi, "w": w, "y": 0.1 * age + w + rng.normal(size=ROWS)})
    study = plan(covariates=["age", "bmi"], missing="model", diagnostics={"enabled": False}, policy="simulation",
                 ids=[],
                 options={"model": {"landmarks": 0, "directions": 0, "knots": 1},
                          "optimiser": {"rounds": 2, "draws": 2}, "prediction": {"draws": 32}})
    return FedCI(study).fit([Source(name, table) for name, table in tables.items()]), tables


def test_copies_differ_where_something_is_missing_and_nowhere_else(fitted):
    result, tables = fitted
    for name, table in tables.items():
        ready = result.people[name].ready
        gaps = table.bmi.isna().to_numpy()
        own = ready.own
        assert own.shape[1:] == (ROWS, 2)
        assert len(own) > 1
        np.testing.assert_allclose(own[:, :, 0], np.broadcast_to(own[0, :, 0], own.shape[:2]))
        np.testing.assert_array_equal(np.ptp(own[:, :, 1], axis=0) > 0, gaps)
        np.testing.assert_allclose(own[0, ~gaps, 1], ready.units.scaled(table[["age", "bmi"]].to_numpy())[~gaps, 1])
