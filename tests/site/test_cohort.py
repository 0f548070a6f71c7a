"""A cohort comes back from the store as it was, and sums over it and over others single nobody out."""

import numpy as np
import pytest

from fedci.errors import DisclosureError
from fedci.site.cohort import Cohort, check_span, fingerprints, per_person, read_cohort, written
from fedci.study.policy import policy


def test_a_person_is_the_same_for_one_key_and_way_alone_and_whoever_stands_twice_is_two():
    people, key = [b"ann", b"bob", b"ann"], b"k" * 32
    one = fingerprints(people, key, "ids")
    assert len(set(one.tolist())) == 3
    np.testing.assert_array_equal(fingerprints(people, key, "ids"), one)
    for other in (fingerprints(people, b"l" * 32, "ids"), fingerprints(people, key, "rows")):
        assert not np.isin(other, one).any()


def test_numbers_are_added_for_each_person_over_the_cohorts_that_she_is_in():
    first, second = (Cohort({"row": np.array(rows, np.uint64)}, np.zeros(2, np.uint8)) for rows in ([1, 2], [2, 3]))
    assert sorted(per_person([first, second], np.array([10, 5])).tolist()) == [5, 10, 15]
    assert per_person([], np.zeros(0)).tolist() == []


def test_cohorts_meet_where_somebody_is_in_both_and_as_is_said_where_nobody_can_tell():
    arm = np.zeros(2, np.uint8)
    one, other = (Cohort({"row a": np.array(rows, np.uint64)}, arm) for rows in ([1, 2], [3, 4]))
    assert one.meets(one, unknown=False)
    assert not one.meets(other, unknown=True)
    unlike = Cohort({"row b": np.array([1, 2], np.uint64)}, arm)
    assert [one.meets(unlike, unknown=known) for known in (True, False)] == [True, False]


def test_the_store_knows_who_was_in_which_of_three_arms():
    """Two people who change from one arm to another are few, though as many are treated as before."""
    prints = np.arange(30, dtype=np.uint64)
    arm = np.repeat([0, 1, 2], 10).astype(np.uint8)
    line = {"prints": {}, "count": 30, **written(arm)}
    np.testing.assert_array_equal(read_cohort(line).arm, arm)
    moved = arm.copy()
    moved[[10, 20]] = 2, 1
    limits = policy({"name": "custom", "min_cell": 5, "min_difference": 5})
    check_span("s0", Cohort({"row": prints}, arm), [Cohort({"row": prints}, arm)], limits)
    with pytest.raises(DisclosureError, match="min_cell"):
        check_span("s0", Cohort({"row": prints}, moved), [Cohort({"row": prints}, arm)], limits)
