"""A result as JSON: numbers that JSON holds, and what a study asks for alone."""

import json

import numpy as np
import pandas as pd
import pytest

from fedci.result import record
from tests_support import frame, made_result, study


@pytest.fixture(scope="module")
def result():
    return made_result(study(preset="default"), {"a": frame(40, 0), "b": frame(30, 1)})


def test_it_is_json_and_holds_the_table(result):
    plain = record.plain(result, 0.05)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["effects"] == result.table(0.05).to_dict("records")
    assert not {"risks", "rates", "survival", "arms", "subgroups", "decisions", "trial"} & set(plain)


def test_a_number_that_is_none_is_none():
    rows = record._without_nan(pd.DataFrame({"needed": [np.nan, 3.0], "over": ["all", "treated"]}))
    assert rows == [{"needed": None, "over": "all"}, {"needed": 3.0, "over": "treated"}]
