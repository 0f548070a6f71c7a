"""Times and counts as a site's columns hold them: what is wrong is named, without a value."""

import numpy as np
import pandas as pd
import pytest

from fedci import Source, Study
from fedci.errors import DataError

N = 30


def read(outcome, **columns):
    frame = pd.DataFrame({"x": np.arange(N) / N, "w": np.arange(N) % 2, "e": np.arange(N) % 3 == 0,
                          "t": np.linspace(1, 20, N), "k": np.arange(N) % 4, "v": np.full(N, 2.0)}).astype({"e": int})
    study = Study(treatment="w", outcome=outcome, covariates=["x"], policy="simulation")
    return Source("lyon", frame.assign(**columns)).read(study)


TIMED = {"time": "t", "event": "e", "type": "survival", "horizons": [10]}


def test_events_beyond_the_last_horizon_are_none_and_times_end_there():
    table = read(TIMED)
    assert table.time.max() == 10.0
    assert (table.y[np.linspace(1, 20, N) > 10] == 0).all()
    assert table.y.sum() > 0
    part = table.take(np.array([3, 1]))
    np.testing.assert_array_equal(part.time, table.time[[3, 1]])


def test_counts_have_their_exposure_or_none():
    assert (read({"name": "k", "type": "count", "exposure": "v"}).time == 2.0).all()
    assert read({"name": "k", "type": "count"}).time is None


@pytest.mark.parametrize(("outcome", "columns", "told"), [
    (TIMED, {"t": np.inf}, "infinite"), (TIMED, {"t": -3.5}, "negative"),
    (TIMED, {"e": 2}, "1 where it happened"), ({"name": "k", "type": "count"}, {"k": np.arange(N) - 1.0}, "no counts")])
def test_what_is_wrong_is_named_without_a_value(outcome, columns, told):
    with pytest.raises(DataError, match=told) as caught:
        read(outcome, **columns)
    assert "lyon" in str(caught.value)
    assert "3.5" not in str(caught.value)
