"""Of which subgroups a site tells: none of few people, none that with another, or with everybody, tells of few."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedci import Source
from fedci.site import store
from fedci.site.accountant import Accountant
from fedci.site.grouping import members, tells_of
from fedci.study.policy import Policy
from tests_support import frame, study

ROWS = 200
W = np.arange(ROWS) % 2
WATCHED = Policy(name="custom", min_difference=20, min_cell=10)


def told(groups, policy=WATCHED, accountant=None, cells=(), **more):
    run = SimpleNamespace(study=SimpleNamespace(policy=policy), table=SimpleNamespace(w=W), name="r", **more)
    party = SimpleNamespace(name="a", accountant=accountant, **more)
    return tells_of(party, run, np.stack(groups), cells).tolist()


def first(people, start=0):
    return (np.arange(ROWS) >= start) & (np.arange(ROWS) < start + people)


def test_a_group_and_all_others_are_of_many():
    assert told([first(20), first(180)]) == [True, True]
    assert told([first(19)]) == [False]
    assert told([first(181)]) == [False], "everybody less the group is 19 people"
    assert told([first(ROWS)]) == [True], "everybody is told of already"


def test_arms_are_of_many_or_of_nobody():
    treated = W == 1
    assert told([first(60) & treated, first(160) & ~treated]) == [True, True]
    few = (first(60) & treated) | first(18) & ~treated
    assert told([few]) == [False], "nine untreated people"


def test_two_groups_that_differ_by_few_are_not_both_told():
    assert told([first(100), first(110)]) == [True, False]
    assert told([first(100), first(120)]) == [True, True]
    assert told([first(100), first(100, 95)]) == [True, False], "five people are in both, or in neither"


def test_a_union_of_groups_that_leaves_few_is_not_told():
    """Three groups of a partition that lacks ten people of unknown age: the last would tell of these ten."""
    assert told([first(60), first(60, 60), first(70, 120)]) == [True, True, False]
    assert told([first(60), first(60, 60), first(80, 120)]) == [True, True, True]


def test_a_group_that_is_all_but_few_of_whom_a_column_counts_is_not_told():
    """The study tells how many smokers there are: of those among them who are over 20 it would tell of the rest."""
    smokers = first(90)
    assert told([first(90)], cells=[smokers]) == [True], "the same people"
    assert told([first(89)], cells=[smokers]) == [False]
    assert told([first(110, 91)], cells=[smokers]) == [False], "all others, but one"
    assert told([first(60)], cells=[smokers]) == [True]
    assert told([first(45), first(44, 45)], cells=[smokers]) == [True, False], "both are all but one of them"
    assert told([first(45), first(45, 45)], cells=[smokers]) == [True, True]


def test_the_rule_is_the_policys():
    assert told([first(3), first(4)], Policy(name="simulation", min_difference=0, min_cell=0)) == [True, True]
    assert told([np.zeros(ROWS, bool)]) == [True], "nobody is not few"


@pytest.mark.parametrize(("later", "expected"), [(100, True), (110, False), (130, True)])
def test_what_earlier_studies_told_counts(tmp_path, later, expected):
    """A second study's subgroup may not differ by few from the first one's."""
    plan = study(policy={"name": "simulation", "min_difference": 20, "min_cell": 10}, diagnostics={"enabled": True},
                 subgroups={"sex": "sex"})
    whole = Source("a", frame(ROWS, 0).assign(w=W)).read(plan)
    more = {"agreed": plan, "whole": whole}

    def asked(group, name):
        run = SimpleNamespace(study=plan, table=whole, name=name, rows=np.arange(ROWS),
                              contract=SimpleNamespace(sites=("a", "b", "c")))
        party = SimpleNamespace(name="a", accountant=account, **more)
        return tells_of(party, run, group[None], ()).tolist()

    store.create(tmp_path)
    account = Accountant(tmp_path)
    assert asked(first(100), "one") == [True]
    assert asked(first(later), "two") == [expected]
    assert account.counts.cohorts == 2 - (later in (100, 110))


def test_people_are_grouped_by_their_own_values():
    """Before rare levels are counted with others."""
    plan = study(diagnostics={"enabled": True}, subgroups={"sex": "sex"})
    whole = Source("a", frame(40, 0)).read(plan)
    party, run = SimpleNamespace(whole=whole), SimpleNamespace(study=plan, rows=np.arange(5, 40))
    assert members(party, run).sum(1).tolist() == [int((whole.x[5:, 2] == level).sum()) for level in (0, 1)]
