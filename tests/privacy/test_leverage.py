"""Leverage: what combinations of sums over cohorts tell of one person, against brute force over small groups."""

import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedci.privacy import leverage
from fedci.privacy.leverage import TooEntangled, classes, factored, leverages, raised


def indicators(cohorts, people: int) -> np.ndarray:
    """[cohorts, people] 0/1."""
    return np.array([np.isin(np.arange(people), cohort) for cohort in cohorts], float)


def judged(cohorts, new: int, least: int):
    return raised(*classes([np.asarray(cohort, np.int64) for cohort in cohorts]), new, least)


def fewest(cohorts, people: int) -> int:
    """The fewest people to whom a combination of the cohorts that is not 0 belongs: by trying all groups. One of people
    S exists where the span loses a dimension when S is left out."""
    told = indicators(cohorts, people)
    rank = np.linalg.matrix_rank(told)
    for size in range(1, people + 1):
        for group in combinations(range(people), size):
            if np.linalg.matrix_rank(np.delete(told, group, axis=1)) < rank:
                return size
    return people


def projected(cohorts, people: int) -> np.ndarray:
    """[people] h from the projection on the span."""
    told = indicators(cohorts, people)
    return np.diag(np.linalg.pinv(told) @ told)


def exact(cohorts, people: int, old: int) -> list[tuple[Fraction, Fraction]]:
    told = indicators(cohorts, people)
    factor = factored(np.rint(told @ told.T).astype(np.int64))
    return [leverages(told[:, person], factor, old) for person in range(people)]


SETS = st.lists(st.sets(st.integers(0, 8), min_size=1).map(sorted), min_size=1, max_size=7)


@given(SETS)
def test_leverages_are_those_of_the_projection_before_and_after(cohorts):
    old = len(cohorts) - 1
    found = exact(cohorts, 9, old)
    np.testing.assert_allclose([float(after) for _, after in found], projected(cohorts, 9), atol=1e-9)
    before = projected(cohorts[:old], 9) if old else np.zeros(9)
    np.testing.assert_allclose([float(earlier) for earlier, _ in found], before, atol=1e-9)


@given(SETS, st.integers(2, 4))
def test_of_the_cohorts_that_are_let_through_no_combination_belongs_to_few(cohorts, least):
    let = []
    for cohort in cohorts:
        if len(cohort) >= least and judged([*let, cohort], 1, least) is None:
            let.append(cohort)
    if let:
        assert fewest(let, 9) >= least


@given(SETS)
def test_what_is_stopped_is_above_the_limit_and_was_not_told_before(cohorts):
    """Equality with the rule itself, in fractions over people, not classes."""
    cohorts = [cohort for cohort in cohorts if len(cohort) >= 3] or [[0, 1, 2]]
    found = exact(cohorts, 9, len(cohorts) - 1)
    people = sum(after > Fraction(1, 3) and after > earlier for earlier, after in found)
    told = judged(cohorts, 1, 3)
    assert (told.people if told else 0) == people


def test_one_person_more_is_found_and_twenty_more_are_not():
    first = range(100)
    assert judged([first, range(101)], 1, 20) == (1, pytest.approx(1.0))
    assert judged([first, range(119)], 1, 20) == (19, pytest.approx(19.0))
    assert judged([first, range(120)], 1, 20) is None
    assert judged([first, first], 1, 20) is None


def test_differences_of_differences_are_found_though_every_two_differ_by_many():
    """a = {40 people}, then with 20 more, then with 20 others, then with the 20 first and one of the others: each two
    differ by 19 and more, and together they tell of that one."""
    a, b, c = list(range(40)), list(range(40, 60)), list(range(60, 80))
    cohorts = [a, a + b, a + c + [80]]
    assert judged(cohorts, 1, 20) is None
    last = a + b + c
    assert min(len(set(last) ^ set(other)) for other in cohorts) >= 20
    told = judged([*cohorts, last], 1, 20)
    assert told == (1, pytest.approx(1.0))


def test_a_person_who_weighs_much_more_than_the_others_is_found_too():
    """No combination is of few people, and one of them is of person 0 above all: 49 others at a fifth of the weight."""
    rng = np.random.default_rng(3)
    cohorts = [sorted({0, *rng.choice(np.arange(1, 60), 30, replace=False).tolist()}) for _ in range(25)]
    told = judged(cohorts, 1, 20)
    assert told is not None
    assert told.worth < 20


def test_a_small_cohort_is_judged_by_its_own_size():
    assert judged([range(5)], 1, 20) is None
    assert judged([range(100, 200), range(5)], 1, 20) is None
    assert judged([range(100), range(5)], 1, 20) is None  # its own mean tells as much
    assert judged([range(5), range(6)], 1, 20).people == 1


def test_what_was_told_already_is_no_reason_to_refuse_others():
    """Person 0 is known; people far away are no concern of theirs, and the same cohort again tells nothing new."""
    assert judged([range(100), range(1, 100), range(200, 300)], 1, 20) is None
    assert judged([range(100), range(1, 100), range(100)], 1, 20) is None
    assert judged([range(100), range(1, 100), range(50)], 1, 20) is None
    with_her = [0, *range(200, 219)]
    assert judged([range(100), range(1, 100), with_her], 1, 20) == (19, pytest.approx(19.0))
    assert judged([range(100), with_her], 1, 20).worth == pytest.approx(1 / (1 / 20 + 1 / 100), rel=0.05)


def test_an_empty_arm_is_nobody():
    nobody = np.zeros(0, int)
    assert judged([range(50), nobody, range(50), nobody], 2, 20) is None
    assert judged([nobody], 1, 20) is None


def test_too_many_cohorts_are_refused_not_guessed(monkeypatch):
    monkeypatch.setattr(leverage, "MOST", 4)
    sliding = [range(20 * k, 20 * k + 40) for k in range(5)]
    with pytest.raises(TooEntangled, match="5 cohorts"):
        judged(sliding, 1, 20)
    apart = [range(40 * k, 40 * k + 40) for k in range(5)]  # nobody in two of them
    assert judged(apart, 1, 20) is None


def test_where_floats_say_little_whole_numbers_decide(monkeypatch):
    """Every class is decided exactly where the condition is bad, and too many of them are refused."""
    cohorts = [range(100), range(40, 140), range(80, 180)]
    usual = judged(cohorts, 1, 20)
    monkeypatch.setattr(leverage, "CONDITION", 1.0)
    assert judged(cohorts, 1, 20) == usual
    assert judged([range(100), range(101)], 1, 20) == (1, pytest.approx(1.0))
    monkeypatch.setattr(leverage, "EXACT", 10)
    with pytest.raises(TooEntangled, match="one by one"):
        judged(cohorts, 1, 20)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_fifty_cohorts_of_a_hundred_thousand_are_decided_in_seconds(share):
    rng = np.random.default_rng(0)
    cohorts = [np.flatnonzero(rng.random(100_000) < share) for _ in range(50)]
    began = time.process_time()
    assert judged(cohorts, 1, 20) is None
    assert time.process_time() - began < 8.0
