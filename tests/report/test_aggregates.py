"""What the coordinator can say of effects without a row."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedci import Result
from fedci.report import aggregates, slots
from fedci.report.page import render


def test_effects_along_a_covariate_are_the_results_own(folder, page):
    result = Result.load(folder)
    made = aggregates.aggregates(result)
    pooled = aggregates.Pooled(result)
    age = next(one for one in made["curves"] if one["covariate"] == "age")
    x = np.tile(pooled.mean, (1, 1))
    x[0, 0] = age["at"][7]
    drawn = result.effects_at(x).means[:, 0]
    assert age["effect"][7] == pytest.approx(drawn.mean(), rel=1e-12)
    assert (age["low"][7], age["high"][7]) == pytest.approx(tuple(np.quantile(drawn, (0.025, 0.975))), rel=1e-12)
    stage = next(one for one in made["curves"] if one["covariate"] == "stage")
    assert stage["at"] == ["I", "II", "III"]
    assert sum(made["population"]["share"]) == pytest.approx(1.0)
    kept = json.loads((folder / aggregates.FILE).read_text())
    assert kept == json.loads(json.dumps(made))  # what was kept is what is made anew


def test_averages_over_some_sites_are_not_shown_where_draws_were_not_told(folder):
    """Averages over the draws are not independent between sites: adding their variances would be too narrow."""
    result = Result.load(folder)
    assert "over the people of more and more sites" in render(result, bare_extra(result, folder))
    whole = result.outcome.effects.over_all.parts
    total = {name: sum(one[name] for one in whole) for name in whole[0]}
    masked = replace(result, outcome=replace(result.outcome, effects=replace(result.outcome.effects, total=total)))
    text = render(masked, bare_extra(masked, folder))
    assert "over the people of more and more sites" not in text
    assert "vary together is not told" in text
    assert masked.ate().sd == pytest.approx(result.ate().sd, rel=1e-12)


def test_a_column_that_stayed_at_the_sites_is_named_and_taken_as_one_half(folder):
    result = Result.load(folder)
    layout = result.outcome.layout
    sex = result.study.covariates[2].name
    columns = layout.columns._replace(count=np.where(np.arange(5) == 2, 0, layout.columns.count))
    layout = replace(layout, columns=columns, withheld=np.arange(5) == 2)
    away = replace(result, outcome=replace(result.outcome, layout=layout))
    assert aggregates.Pooled(away).mean[2] == 0.5
    assert f"{sex} stayed at every site: at one of them too few people stand apart in it." in render(
        away, bare_extra(away, folder))


def bare_extra(result, folder, **slot):
    from fedci.report.facts import Extra

    return Extra(slots.Slots(**slot), aggregates.aggregates(result, folder), {}, {})


def test_what_could_not_be_made_is_noted(folder):
    result = Result.load(folder)
    text = render(result, bare_extra(result, folder, notes=["the refuter subset could not be fitted"],
                                     problems={"verdicts": "of another form"}))
    assert "Note: the refuter subset could not be fitted" in text
    assert "verdicts cannot be shown (of another form)" in text
