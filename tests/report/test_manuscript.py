"""Table 1, attrition, missingness and the unadjusted effect, from a fitted study: as its pooled table has them."""

from dataclasses import replace

import pandas as pd
import pytest

from fedci.diagnostics.missingness import Missingness
from fedci.report.manuscript import NONE, adjusted, attrition, missing, people, question, sections, table_one
from fedci.report.svg import number
from support.refuted import sources
from support.worded import whole_text_is_the_same
from tests_support import study


@pytest.fixture(scope="module")
def pooled():
    return pd.concat([source.data for source in sources()])


def test_table_one_is_that_of_all_people_in_one_table(refuted, pooled):
    rows = {row[0]: row[1:] for row in table_one(refuted.diagnostics.described, refuted.study).rows}
    assert rows["people"] == [str((pooled.w == arm).sum()) for arm in (0, 1)]
    for arm in (0, 1):
        part = pooled[pooled.w == arm]
        assert rows["age"][arm] == f"{number(part.age.mean())} ({number(part.age.std(ddof=0))})"
        assert rows["sex"][arm] == f"{100 * part.sex.mean():.1f}%"


def test_unadjusted_stands_beside_adjusted(refuted, pooled):
    [crude, fitted] = adjusted(refuted, refuted.diagnostics.described, 0.05).rows
    means = [pooled[pooled.w == arm].y.mean() for arm in (0, 1)]
    assert crude[1:4] == [number(means[0]), number(means[1]), number(means[1] - means[0])]
    assert fitted[3] == number(refuted.ate().mean)


def test_attrition_counts_everybody_once(refuted, pooled):
    rows = attrition(refuted).rows
    assert rows[-1] == ["all", NONE, str(len(pooled)), str((pooled.w == 0).sum()), str((pooled.w == 1).sum())]
    assert sum(int(row[2]) for row in rows[:-1]) == len(pooled)


def test_attrition_of_several_arms_is_by_arm(refuted):
    """The same people, a part of the treated in an arm of its own."""
    people = {site: at._replace(others=(at.treated - 3, 3)) for site, at in refuted.outcome.layout.people.items()}
    layout = replace(refuted.outcome.layout, people=people)
    many = replace(refuted, study=study(
        preset="default", treatment={"name": "w", "arms": ["none", "low", "high"]}),
                   outcome=replace(refuted.outcome, layout=layout))
    table = attrition(many)
    assert list(table.heads[3:]) == ["none", "low", "high"]
    assert [row[-1] for row in table.rows] == ["3"] * len(people) + [str(3 * len(people))]
    assert int(table.rows[-1][2]) == sum(int(cell) for cell in table.rows[-1][3:])


def test_rows_that_may_be_dropped_are_no_missing_covariates(refuted):
    """No covariate may lack a value: a sentence, not a table without rows."""
    gaps = Missingness(columns=(), sites=(), without_treatment=None, without_outcome=None, verdicts=())
    [said] = missing(refuted.diagnostics.model_copy(update={"missingness": gaps}), study(rows_without="drop"))
    assert "of covariates none" in said


def test_a_study_that_refuses_gaps_has_none_to_show(refuted):
    assert "none" in missing(refuted.diagnostics, refuted.study)[0]
    assert "holds no shares" in missing(None, study(missing="impute"))[0]


def test_a_blinded_result_shows_no_outcome(blinded):
    said = str(people(blinded(), 0.05))
    assert "unadjusted" not in said
    assert "Table 1" in said


def test_a_result_without_diagnostics_says_what_it_lacks(classic):
    [_, studied] = sections(classic, 0.05)
    assert [part for part in studied.parts if isinstance(part, str) and "table 1" in part]
    assert "no [estimand]" in question(classic.study).parts[-1]


def test_word_holds_every_sentence_of_a_fitted_study_with_all_that_it_tells(refuted, tmp_path):
    """Diagnostics, refuters, table 1 and the checklists too."""
    refuted.save(tmp_path / "result")
    assert "Table 1" in whole_text_is_the_same(tmp_path / "result", tmp_path)
