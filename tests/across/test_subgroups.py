"""Subgroups of a study, from its file to the result: federated as in one place, masked as in the clear."""

import numpy as np
import pytest

from fedci import Result, Source
from fedci.errors import UsageError
from fedci.report.page import write_report
from fedci.site.release import release
from support.masked import FEW, SECURE
from tests_support import fit_sites, frame, hospitals, study

SUBGROUPS = {"sex": "sex", "age": {"by": "age", "cuts": [60]}, "old": {"where": {"age": {"from": 70}, "sex": 1}}}
CHANGES = {"options": FEW, "diagnostics": {"enabled": True}, "subgroups": SUBGROUPS}


@pytest.fixture(scope="module")
def masked():
    return fit_sites(hospitals(40, 37, 39), policy=SECURE, **CHANGES)[0]


@pytest.fixture(scope="module")
def clear():
    return fit_sites(hospitals(40, 37, 39), **CHANGES)


def test_masked_subgroups_are_those_in_the_clear(masked, clear):
    """Under masks the fit itself differs by the integers' last bits."""
    one, other = (result.outcome.effects.subgroups for result in (masked, clear[0]))
    for name, part in one.items():
        np.testing.assert_allclose(part, other[name], rtol=1e-4, atol=1e-4)
    assert masked.contrasts().shape == (3, 10)


def test_groups_of_a_partition_add_up_to_everybody(clear):
    told, all_ = clear[0].outcome.effects.subgroups, sum(
        part["cate_mean"][:, 0] for part in clear[0].outcome.effects.sums.values())
    for pair in ([0, 1], [2, 3], [4, 5]):
        np.testing.assert_allclose(told["effects"][:, 0, pair].sum(1), all_, rtol=1e-9)
        assert told["people"][pair].sum() == 116


def test_a_groups_effect_is_the_average_over_its_people(clear):
    """What a site gives to each of its people, summed by hand."""
    result, sites = clear
    by_hand = 0.0
    for site in sites.values():
        people = result.people[site.name]
        by_hand += people.cate().mean[people.table.x[:, 2] == 1].sum()
    row = result.subgroups().set_index("group").loc["sex = 1"]
    assert row["mean"] == pytest.approx(by_hand / row.people, rel=1e-9)


def test_they_are_saved_and_read_again(masked, tmp_path):
    masked.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    assert again.subgroups().equals(masked.subgroups())
    assert again.plain()["contrasts"] == masked.plain()["contrasts"]
    assert (tmp_path / "result" / "subgroups.csv").read_text().startswith("subgroup,group,people,sites,mean")
    assert "In the study's subgroups" in again.summary()


def test_what_leaves_was_foreseen(clear):
    """Every number of the answer is in `fedci check`."""
    result, sites = clear
    site = next(iter(sites.values()))
    told = {part.name: part for part in release(result.study, site.party.whole, sites=3).sums
            if part.meaning and part.phase == "checks"}
    for name, part in result.outcome.effects.subgroups.items():
        assert (told[name].shape, told[name].times) == (part.shape, 1)


def test_a_column_less_a_subgroup_of_it_tells_of_nobody():
    """One listens: the sums of the columns count who has sex = 1; a subgroup of all of them but one, by age, would tell
    of that one."""
    limits = {"min_cell": 10, "min_difference": 20}
    tables = [frame(90, site).assign(sex=np.arange(90) // 2 % 2, w=np.arange(90) % 2) for site in range(3)]
    for table in tables:
        table["age"] = table.age.clip(40, 60)
    tables[1].loc[2, "age"] = 80
    sources = [Source(f"site-{site}", table) for site, table in enumerate(tables)]
    asked = {"where": {"age": {"below": 70}, "sex": 1}}
    results = fit_sites(sources, **CHANGES | {"subgroups": {"young": asked}}, policy=SECURE | limits)[0]
    told = results.outcome.effects.subgroups
    assert told["told"].tolist() == [2.0, 2.0]
    assert told["people"].tolist() == [88.0, 92.0]


def test_a_study_without_any_says_so(clear):
    plain = clear[0].__class__(study=study(), outcome=clear[0].outcome, people={})
    with pytest.raises(UsageError, match="names no subgroups"):
        plain.subgroups()
    assert "subgroups" not in plain.plain()


# --- decisions

ASKED = CHANGES | {"subgroups": {"sex": "sex"}, "decisions": {"along": ["age", "sex"], "cost": 0.5}}


@pytest.fixture(scope="module")
def decided():
    return fit_sites(hospitals(40, 37, 39), **ASKED)


def test_decisions_are_those_of_the_combined_sums(decided, clear):
    """Σ x̃ τ of the constant is the sum over everybody; a leaf's people are counted once; what leaves was foreseen."""
    result, sites = decided
    told, sums = result.outcome.effects.decisions, result.outcome.effects.sums
    np.testing.assert_allclose(told["projected"][:, 0, 0], sum(part["cate_mean"][:, 0] for part in sums.values()),
                               rtol=1e-9)
    np.testing.assert_allclose(told["leaf_effects"][:, 0].sum(1), told["projected"][:, 0, 0], rtol=1e-9)
    assert told["leaf_people"].sum() == told["products"][0, 0] == told["scores"][0] == 116
    own = result.outcome.diagnostics.heterogeneity
    assert told["scores"][1] / 116 == pytest.approx(own.pooled.mean, rel=2e-3), "each site rounds its own to 4 digits"
    foreseen = {part.name: part.shape for part in release(result.study, next(iter(sites.values())).party.whole,
                                                          sites=3).sums if part.phase == "checks"}
    assert all(foreseen[name] == part.shape for name, part in told.items() if name in foreseen)


def test_decisions_come_back_from_disk_and_stand_in_the_report(decided, tmp_path):
    result = decided[0]
    result.save(tmp_path / "result")
    again = Result.load(tmp_path / "result")
    assert again.plain()["decisions"] == result.plain()["decisions"]
    page = write_report(tmp_path / "result").read_text(encoding="utf-8")
    for words in ("at a glance", "In whom", "Whom to treat", "treat everybody", "The straight line nearest"):
        assert words in page
    assert "result." not in page.partition("As sources are added</h2>")[0].partition("at a glance")[2]
    with pytest.raises(UsageError, match="asks nothing for decisions"):
        result.__class__(study=study(), outcome=result.outcome, people={}).decisions  # noqa: B018
