"""Small cells by what columns hold: against counting, for every small table; and the columns of the design's list."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from fedci import Source
from fedci.table import small_cells
from tests_support import frame, study

LEAST = 2


def counts(column, w) -> list[int]:
    """People of each value in each arm, by counting them."""
    values = sorted({v for v in column if v == v})
    return [sum(v == value and arm == group for v, group in zip(column, w, strict=True))
            for value in values for arm in (0, 1)]


TABLES = [(column, w) for w in ((0, 1, 0, 1, 0, 1), (0, 0, 0, 0, 1, 1), (0,) * 6)
          for column in product((0.0, 1.0, np.nan), repeat=6)]


def test_a_column_of_two_values_is_withheld_exactly_where_a_cell_of_an_arm_is_small():
    for column, w in TABLES:
        known = {v for v in column if v == v}
        expected = len(known) == 2 and any(0 < count < LEAST for count in counts(column, w))
        assert small_cells.is_small_outcome(np.array(column), np.array(w), LEAST) == expected
        by_arm = [[v == v for v, arm in zip(column, w, strict=True) if arm == group] for group in (0, 1)]
        hardly_known = any(0 < sum(arm) < LEAST and not all(arm) for arm in by_arm)
        found = small_cells.withheld(np.array(column)[:, None], np.array(w), LEAST)
        assert found.tolist() == [expected or hardly_known], (column, w)


def test_a_column_that_one_value_fills_is_withheld_where_few_of_an_arm_have_another():
    """A dose that thirteen people have, each another, and of the treated one: its sum over them is that person's."""
    w, doses = np.repeat([0, 1], 50), np.zeros(100)
    doses[:12] = np.arange(1, 13)
    assert not small_cells.withheld(doses[:, None], w, 10).any()  # nobody of the treated has any
    doses[60] = 40.0
    assert len(np.unique(doses)) > small_cells.FEW
    assert small_cells.withheld(doses[:, None], w, 10).all()
    assert small_cells.is_small_outcome(doses, w, 10)
    doses[61:70] = 41.0 + np.arange(9)
    assert not small_cells.withheld(doses[:, None], w, 10).any()
    assert not small_cells.is_small_outcome(doses, w, 10)
    measured = np.random.default_rng(0).normal(size=100)
    assert not small_cells.withheld(measured[:, None], w, 10).any()


def test_a_value_that_few_of_an_arm_are_known_to_have_is_withheld():
    """A dose of 0 in three of the treated, missing in the others: in model units what is missing is 0, and they are
    not."""
    w, doses = np.repeat([0, 1], 50), np.arange(100.0) % 7
    doses[50:] = np.nan
    assert not small_cells.withheld(doses[:, None], w, 10).any()
    doses[50:53] = 0.0
    assert small_cells.withheld(doses[:, None], w, 10).all()
    doses[50:60] = 0.0
    assert not small_cells.withheld(doses[:, None], w, 10).any()


def test_gaps_are_small_exactly_where_few_of_an_arm_lack_a_value():
    for column, w in TABLES:
        lacking = [sum(v != v and arm == group for v, group in zip(column, w, strict=True)) for arm in (0, 1)]
        expected = any(0 < count < LEAST for count in lacking)
        assert small_cells.gaps(np.array(column)[:, None], np.array(w), LEAST).tolist() == [expected], (column, w)


def test_a_column_varies_where_enough_people_are_not_of_the_commonest_value():
    for column, _ in TABLES[:3**6]:
        known = [v for v in column if v == v]
        apart = len(known) - max((known.count(v) for v in known), default=0)
        for least in (0, 1, 2, 3):
            found = small_cells.varies(np.array(column)[:, None], least)
            assert found.tolist() == [apart >= max(least, 1)], (column, least)


def test_after_merging_no_value_of_few_is_held_by_few_or_all_are_one():
    rng = np.random.default_rng(0)
    base = table_of(frame(40, 0))
    for _ in range(200):
        x = base.x.copy()
        x[:, 1] = np.minimum(rng.poisson(rng.uniform(0.2, 2), 40), 4)
        x[rng.uniform(size=40) < 0.1, 1] = np.nan
        made = small_cells.merged(with_x(base, x), 5).x
        if len(np.unique(x[~np.isnan(x[:, 1]), 1])) < 3:
            np.testing.assert_array_equal(made, x)
            continue
        held = made[~np.isnan(made[:, 1]), 1]
        assert set(held) <= set(x[:, 1])
        np.testing.assert_array_equal(np.isnan(made), np.isnan(x))
        np.testing.assert_array_equal(made[:, [0, 2]], x[:, [0, 2]])
        small = any(0 < count < 5 for count in counts(made[:, 1], base.w))
        assert not small or small_cells.withheld(made, base.w, 5)[1] or len(set(held)) == 1, counts(x[:, 1], base.w)


def test_few_of_an_arm_who_join_a_value_that_the_arm_did_not_hold_are_merged_on():
    """Two is held by seven of one arm and nobody of the other, until three of those come to it from a rare three."""
    w = np.repeat([0.0, 1.0], 20)
    column = np.concatenate([np.repeat([0.0, 1.0, 2.0], [6, 7, 7]), np.repeat([0.0, 1.0, 3.0], [8, 9, 3])])
    made = small_cells._merged(column, w, 5)
    assert counts(made, w) == [6, 8, 14, 12]
    assert set(made) == {0.0, 1.0}


def table_of(rows, **changes):
    return Source("a", rows).read(study(**changes))


def with_x(table, x):
    return replace(table, x=x, missing=np.isnan(x))


# --- however it is declared


def two_arms(rows=60):
    return frame(rows, 0).assign(w=np.arange(rows) % 2)


@pytest.mark.parametrize("declared", [{"type": "binary"}, {}], ids=["binary", "numeric"])
def test_a_trait_of_one_person_is_withheld_however_it_is_declared(declared):
    table = table_of(two_arms().assign(sex=(np.arange(60) == 7).astype(int)),
                     covariates={"age": {}, "bmi": {}, "sex": declared})
    assert small_cells.withheld(table.x, table.w, 10).tolist() == [False, False, True]
    assert not small_cells.withheld(table.x, table.w, 0).any()


def test_a_level_of_one_person_is_withheld_and_the_others_are_not():
    stage = np.array(["I", "II"] * 30, object)
    stage[7] = "III"
    levels = {"type": "categorical", "levels": ["I", "II", "III"]}
    table = table_of(two_arms().assign(stage=stage, w=np.arange(60) // 2 % 2), covariates={"age": {}, "stage": levels})
    assert table.columns == ("age", "stage=II", "stage=III")
    assert small_cells.withheld(table.x, table.w, 10).tolist() == [False, False, True]


def test_a_rare_top_of_a_score_is_counted_with_the_next():
    score = np.arange(60) // 2 % 4
    score[[7, 22]] = 4
    table = table_of(two_arms().assign(bmi=score))
    made = small_cells.merged(table, 5)
    np.testing.assert_array_equal(made.x[:, 1], np.minimum(score, 3))
    assert "column 'bmi' has values that fewer than 5 people of an arm hold" in made.warnings[-1]
    assert "4" not in made.warnings[-1].replace("'bmi'", "")
    assert small_cells.merged(table, 0) is table
    assert small_cells.merged(made, 5) is made


def test_a_measurement_is_no_list_of_cells():
    table = table_of(two_arms())
    assert small_cells.merged(table, 10) is table
    assert not small_cells.withheld(table.x, table.w, 10)[:2].any()


@pytest.mark.parametrize("events, small", [(0, False), (1, True), (12, True), (40, False), (59, True)])
def test_an_outcome_of_two_values_is_judged_by_its_cells(events, small):
    y, w = (np.arange(60) < events).astype(float), np.arange(60) % 2
    assert small_cells.is_small_outcome(y, w, 10) is small
    assert not small_cells.is_small_outcome(np.linspace(0, 1, 60), w, 10)
