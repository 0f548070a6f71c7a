"""Combinations of columns that tell of few: against every combination of two small columns, and by what they hold."""

from itertools import product

import numpy as np
import pytest

from fedci.table import small_cells, strays

ROWS = 120
W = np.arange(ROWS) // 2 % 2
LEAST = 10
NONE = np.zeros(2, bool)


def random(seed=0):
    return np.random.default_rng(seed)


def beside(*columns, least=LEAST, w=W):
    x = np.column_stack(columns).astype(float)
    return strays.beside(x, w, least, np.zeros(x.shape[1], bool)).tolist()


def test_two_columns_of_two_values_are_told_apart_exactly_where_a_combination_rests_on_few():
    """α a + β b + γ that is 0 for some, by trying them all: of one arm."""
    rows, least = 6, 2
    combinations = [np.array(c) for c in product((-1, 0, 1), repeat=3) if c[0] and c[1]]
    for a, b in product(product((0.0, 1.0), repeat=rows), repeat=2):
        if not all(least <= sum(column) <= rows - least for column in (a, b)):
            continue  # small by itself, or constant
        of_both = np.column_stack([a, b, np.ones(rows)])
        few = any(0 < np.count_nonzero(of_both @ c) < least for c in combinations)
        assert beside(a, b, least=least, w=np.zeros(rows)) == [False, few], (a, b)


@pytest.mark.parametrize("few", [1, 9, 10])
def test_two_traits_that_differ_in_few_people_are_not_both_told(few):
    smoker = random().integers(0, 2, ROWS)
    ever = smoker.copy()
    ever[np.flatnonzero(W == 1)[:few]] ^= 1
    assert beside(smoker, ever) == beside(smoker, 1 - ever) == [False, few < LEAST]
    assert beside(smoker, smoker) == [False, False], "they differ in nobody"


def test_a_corrected_measurement_beside_the_first_one_is_not_told():
    """In whatever unit: what is left of it is the one person's."""
    weight = random().normal(70, 12, ROWS).round(1)
    again = weight.copy()
    again[7] += 3.0
    pounds = 2.2046 * again + 1.0
    assert beside(weight, again) == beside(weight, pounds) == beside(pounds, weight) == [False, True]
    again[np.arange(0, ROWS, 5)] += random(1).normal(size=ROWS // 5)
    assert beside(weight, again) == [False, False], "twelve of each arm differ"
    assert beside(weight, random(2).normal(size=ROWS)) == [False, False]


def test_a_dose_beside_who_got_one():
    treated = np.arange(ROWS) % 3 == 0
    dose = 5.0 * treated
    assert beside(treated, dose) == [False, False]
    dose[0] = 7.5
    assert beside(treated, dose) == beside(dose, treated) == [False, True]


@pytest.mark.parametrize("levels", [3, 5])
def test_a_rare_reference_is_as_rare_as_any_level(levels):
    """The columns of the other levels are of many; who is in none of them is told by their sum."""
    level = 1 + np.arange(ROWS) // 4 % (levels - 1)
    others = np.arange(1, levels)
    assert not any(beside(*(level[None] == others[:, None])))
    level[[4, 5]] = 0
    assert beside(*(level[None] == others[:, None])) == [False] * (levels - 2) + [True]
    x = (level[:, None] == others[None]).astype(float)
    assert small_cells.withheld(x, W, LEAST).tolist() == [False] * (levels - 2) + [True]
    assert not small_cells.withheld(x, W, 0).any()


def test_two_divisions_of_one_column_into_levels_that_differ_by_few_are_not_both_told():
    """No level is rare, none is as another, but those below 40 and those below 41 are told by what is left of each."""
    def levels(cuts):
        return [(np.digitize(age, cuts) == k).astype(float) for k in range(1, len(cuts) + 1)]

    age = np.concatenate([random(3).integers(20, 80, 400), [40] * 5])
    w = np.arange(len(age)) % 2
    age[:400][age[:400] == 40] = 39
    assert beside(*levels([40, 60]), *levels([41, 55]), w=w) == [False, False, False, True]
    assert not any(beside(*levels([40, 60]), *levels([46, 55]), w=w))


def test_cells_are_whom_sums_of_columns_count():
    level = np.arange(ROWS) // 4 % 3
    age = random().normal(size=ROWS)
    age[:30] = np.nan
    x = np.column_stack([level == 1, level == 2, age]).astype(float)
    found = strays.cells(x, W, LEAST, np.zeros(3, bool))
    assert [cell.sum() for cell in found] == [40, 40, 40, 90]
    assert np.array_equal(found[2], level == 0)
    assert len(strays.cells(x, W, LEAST, np.array([False, True, True]))) == 1, "a column stands against all others"
    x[:25, 2] = 1.0
    assert len(strays.cells(x, W, LEAST, np.zeros(3, bool))) == 3, "five gaps are not told of"


def test_what_is_missing_is_no_difference():
    a = random().integers(0, 2, ROWS).astype(float)
    b = a.copy()
    b[:30] = np.nan
    assert beside(a, b) == [False, False]
    b[40] = 1 - b[40]
    assert beside(a, b) == [False, True]


def test_columns_that_stay_anyway_tell_of_nobody():
    a = random().integers(0, 2, ROWS).astype(float)
    b = a.copy()
    b[3] = 1 - b[3]
    x = np.column_stack([a, b])
    assert strays.beside(x, W, LEAST, np.array([True, False])).tolist() == [False, False]
    assert strays.beside(x, W, 0, NONE).tolist() == [False, False]
