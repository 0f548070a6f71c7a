"""The data sets by name."""

import numpy as np
import pytest

from fedci.benchmark.run import suites
from fedci.benchmark.run.suites import Choice
from fedci.errors import UsageError
from fedci.synthetic.datasets import synthetic


@pytest.mark.parametrize("name", [name for name in suites.NAMES if not name.startswith("ihdp")])
def test_every_generator_has_its_sources_and_truth(name):
    suite = suites.suite(Choice(name=name))
    splits = suite.load(0)
    assert len(splits) == suite.most == 5
    assert {len(split.train) for split in splits} == {50}
    if name == "null":
        assert not any(split.test.cate.any() for split in splits)


def test_variations_have_labels_of_their_own():
    labels = {Choice(name="data-1").label, Choice(name="data-1", reading="std").label,
              Choice(name="data-1", rows=200).label, Choice(name="data-1", parameters="per-replication").label}
    assert labels == {"data-1", "data-1/std", "data-1/200-rows", "data-1/per-replication"}
    assert len(suites.suite(Choice(name="data-1", rows=200)).load(0)[0].train) == 200


@pytest.mark.parametrize("choice, words", [
    (Choice(name="data-3"), "Known: data-1"), (Choice(name="linear", reading="std"), "no such variation"),
    (Choice(name="ihdp", rows=70), "no such variation"),
])
def test_data_sets_that_do_not_exist(choice, words):
    with pytest.raises(UsageError, match=words):
        suites.suite(choice)


def test_people_of_all_sources_are_scored_where_a_paper_did_so():
    """Then a source alone, which says nothing of the others' people, is no mode."""
    missing, other = suites.suite(Choice(name="ihdp-missing")), suites.suite(Choice(name="ihdp-causalrff"))
    assert (missing.counts, missing.everywhere, missing.modes) == ((2, 4, 6), True, ("fed", "com", "agg"))
    assert (other.counts, other.everywhere, other.modes) == ((1, 2, 3), False, ("fed", "com", "loc", "agg"))
    assert (missing.form, other.form) == (None, ("IHDP", "variance"))


def test_missing_values_are_not_constant():
    splits = synthetic("DATA-1", 0)[:2]
    splits[0].train.x[:, 3] = np.nan
    splits[1].test.x[0, 5] = np.nan
    assert suites.varying(splits).all()
    assert np.flatnonzero(~suites.varying(splits[:1])).tolist() == [3]
    assert np.flatnonzero(suites.incomplete(splits)).tolist() == [3, 5]


def test_constant_covariates_stay_out_of_a_study():
    splits = synthetic("DATA-1", 0)[:2]
    for split in splits:
        split.train.x[:, 3] = 1.0
    assert np.flatnonzero(~suites.varying(splits)).tolist() == [3]
