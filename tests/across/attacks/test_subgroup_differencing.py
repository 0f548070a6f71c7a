"""Subgroups that differ by one person: whoever knows all covariates solves for what a site's sums tell of each."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedci import Source
from fedci.site import store
from fedci.site.accountant import Accountant
from fedci.site.grouping import members, tells_of
from tests_support import frame, study

ROWS, LEAST = 200, 20
CUTS = np.linspace(31.0, 89.0, 40)
"""Where forty studies cut age: next to each other few people are between two."""


def hospital():
    """Ages of which each is one person's."""
    rng = np.random.default_rng(0)
    return frame(ROWS, 0).assign(age=rng.permutation(np.linspace(30.0, 90.0, ROWS)), w=np.arange(ROWS) % 2)


def told_groups(folder, min_difference, min_cell, studies):
    """[groups, n] the memberships of which sums were told, everybody's first; each study's in one run of its own."""
    store.create(folder)
    accountant, told = Accountant(folder), [np.ones(ROWS, bool)]
    policy = {"name": "simulation", "min_difference": min_difference, "min_cell": min_cell, "max_cohorts": 1000}
    for number, subgroups in enumerate(studies):
        plan = study(policy=policy, diagnostics={"enabled": True}, subgroups=subgroups)
        whole = Source("a", hospital()).read(plan)
        run = SimpleNamespace(study=plan, table=whole, name=f"run{number}", rows=np.arange(ROWS),
                              contract=SimpleNamespace(sites=("a", "b", "c")))
        party = SimpleNamespace(name="a", accountant=accountant, agreed=plan, whole=whole)
        groups = members(party, run)
        told += list(groups[tells_of(party, run, groups, ())])
    return np.array(told, float)


def solved(told):
    """How near the best combination of the sums comes to each person's own number: its share of their value."""
    _, sizes, rows = np.linalg.svd(told, full_matrices=False)
    return (rows[sizes > 1e-9 * sizes[0]] ** 2).sum(0)


def forty():
    return [{"age": {"by": "age", "cuts": [float(cut)]}} for cut in CUTS]


def one_study():
    """All at once, as far as one study may name groups, by ranges that overlap."""
    return [{f"g{k}": {"where": {"age": {"from": float(cut)}}} for k, cut in enumerate(CUTS[:12])}]


@pytest.mark.parametrize("studies", [forty, one_study])
def test_nobody_is_solved_for(tmp_path, studies):
    """What is told of a person is a mean over twenty at least, whatever is combined."""
    told = told_groups(tmp_path, LEAST, 5, studies())
    assert 2 < len(told) < 2 * len(CUTS), "some groups are told, and not all"
    assert solved(told).max() <= 1.0 / LEAST + 1e-9
    values = np.random.default_rng(1).normal(size=ROWS)
    guess = np.linalg.pinv(told) @ (told @ values)
    assert (np.abs(guess - values) > 0.01).mean() > 0.95, "by chance one in a hundred is as near"


@pytest.mark.parametrize("studies", [forty, one_study])
def test_without_the_account_groups_that_differ_by_few_are_solved_for(tmp_path, studies):
    """The control: the same studies, where nothing is held against what was told."""
    told = told_groups(tmp_path, 0, 0, studies())
    assert len(told) > len(CUTS) / 2
    assert solved(told).max() > 0.19, "of five people between two cuts the mean is known"


def test_the_difference_of_two_groups_is_one_persons_number_where_nothing_is_held_against_it(tmp_path):
    ages = np.sort(hospital().age)
    studies = [{"age": {"by": "age", "cuts": [float(cut) + 0.01]}} for cut in ages[99:101]]
    told = told_groups(tmp_path, 0, 0, studies)
    values = np.random.default_rng(2).normal(size=ROWS)
    guess = np.linalg.pinv(told) @ (told @ values)
    person = np.flatnonzero(solved(told) > 0.999)
    assert len(person) == 1
    np.testing.assert_allclose(guess[person], values[person], rtol=1e-9)
    (tmp_path / "held").mkdir()
    assert solved(told_groups(tmp_path / "held", LEAST, 5, studies)).max() <= 1.0 / LEAST + 1e-9
