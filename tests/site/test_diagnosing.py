"""A site's side of the diagnostics: what it hides and withholds, and that nothing in a sum is of one site."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedci.diagnostics import balance, overlap, propensity
from fedci.errors import SiteError
from fedci.protocol import course
from fedci.protocol.messages import Step
from fedci.protocol.requests import REQUESTS, diagnostic
from fedci.site import diagnosing, summing
from fedci.site.left_out import Predicted
from support.trials import STANDARD, begun, trial

IPTW = balance.WEIGHTINGS.index("iptw")


@pytest.fixture(scope="module")
def study():
    """(talk, sites, what all know, contract) before the design; one treated person of site a is far younger."""
    rows = trial(150, 0)
    rows.loc[0, ["age", "w"]] = -40.0, 1
    return begun({"a": rows, "b": trial(120, 1)}, policy=STANDARD)


def here(study, site="a", **changes):
    run = study[1][site].run
    return replace(summing._here(run, run.prepared), **changes)


def ask(study, kind, site="a", **changes):
    base = {"centre": np.array([60.0, 26.0, 0.5]), "spread": np.ones(3), "slopes": np.zeros(3)}
    base |= {"share": np.array(0.5)} if kind == "balance" else {}
    return diagnosing.answer(here(study, site), kind, base | changes)


def test_weights_that_few_people_carry_are_withheld(study):
    """Slopes that leave the youngest treated person with all the weight: their covariates would be the mean."""
    told = ask(study, "balance", slopes=np.array([0.1, 0.0, 0.0])).sums
    assert told["carried"].tolist() == [1, 0, 1]
    assert not told["told"][IPTW].any()
    assert told["told"][0].all()
    for name in ("size", "first", "second", "weight", "square"):
        assert not told[name][IPTW].any(), name
        assert told[name][0].any(), name
    assert ask(study, "balance").sums["carried"].tolist() == [1, 1, 1]  # nobody counts more than others


def test_the_propensity_of_two_sites_has_no_coordinate_of_either(study):
    """A site's own intercept is profiled out: the sums are of the common slopes, however many sites there are."""
    told = ask(study, "propensity").sums
    assert {name: part.shape for name, part in told.items()} == {
        "log_likelihood": (), "gradient": (3,), "hessian": (3, 3), "carried": (2,)}
    w, x = study[1]["a"].run.table.w, study[1]["a"].run.table.x - [60.0, 26.0, 0.5]
    np.testing.assert_allclose(told["gradient"], x.T @ (w - propensity.scores(x, w, np.zeros(3))), rtol=1e-9)
    # the first Hessian, at slopes of zero: a constant times the covariance within the site, not Σ x xᵀ
    weight = told["carried"][0] / len(w)
    away = x - x.mean(0)
    np.testing.assert_allclose(told["hessian"], weight * away.T @ away, rtol=1e-3)
    assert all("sites" not in array.shape for row in REQUESTS.values() if row.kind
               for array in (*row.answer, *row.own))


def test_a_trait_of_few_is_in_no_diagnostic():
    rows = trial(150, 0).assign(sex=(np.arange(150) == 7).astype(int))
    talk, sites, opened, contract = begun({"a": rows, "b": trial(120, 1)}, policy=STANDARD)
    assert opened.withheld.tolist() == [False, False, True]
    arrays = {"centre": opened.centre, "spread": opened.spread, "slopes": np.ones(3), "share": np.array(0.5)}
    run = sites["a"].run
    own = summing._here(run, run.prepared)
    assert not own.rows()[:, 2].any()
    told = {kind: diagnosing.answer(own, kind, arrays).sums for kind in ("propensity", "balance", "overlap")}
    assert not told["propensity"]["hessian"][2].any()
    assert not told["propensity"]["gradient"][2]
    assert not told["balance"]["told"][:, 2].any()
    assert not told["overlap"]["where_told"][2]


def given(table, arms, mean, sd, place):
    """In the place of what the model says of each person without them."""
    return Predicted(y=table.y, w=table.w, arms=arms, mean=mean, sd=sd, place=place, person=np.arange(table.rows))


def test_small_bins_of_predictions_stay_at_the_site(study, monkeypatch):
    """What the model says of each person is given here; the bins around the middle are large, the outer ones small."""
    table = study[1]["a"].run.table
    predicted = np.linspace(4.0, 8.0, 150)
    place = np.linspace(0.2, 0.8, 150)
    place[:3] = 0.01
    monkeypatch.setattr(diagnosing, "predicted", lambda table, *_: given(
        table, np.column_stack([predicted, predicted + 1]), predicted, np.ones(150), place))
    arrays = {"centre": np.array([60.0, 26.0, 0.5]), "spread": np.ones(3), "slopes": np.zeros(3),
              "edges": np.concatenate([[4.1], np.linspace(4.6, 7.5, 8)]), "beta_mean": np.zeros((1, 0)),
              "beta_root": np.zeros((1, 0, 0))}
    told = diagnosing.answer(here(study, posterior="given"), "outcome", arrays)
    counts = np.bincount((place * 20).astype(int), minlength=20)
    assert counts[0] == 3
    assert told.sums["places_hidden"][0]
    assert told.sums["places_hidden"].sum() >= 2  # a second one, or the total would tell the first
    assert not told.sums["places_whole"].any()
    for shown in (told.sums["places"], told.sums["bins"][:, 0]):
        assert shown.any()
        assert not ((shown > 0) & (shown < 10)).any()
    hidden = told.sums["bins"][:, 0] == 0
    assert hidden[0]
    assert not told.sums["bins"][hidden].any()
    assert all(float(f"{v:.4g}") == v for v in told.own["residuals"][:, 1:].ravel())
    assert told.own["residuals"][:, 0].tolist() == [np.sum(table.w == 0), np.sum(table.w == 1)]
    assert told.own["effect"][0] == 150
    assert not any(150 in np.shape(array) for array in (*told.sums.values(), *told.own.values()))


def test_under_masks_no_sites_own_effect_is_told_unless_the_study_says_so(study, monkeypatch):
    monkeypatch.setattr(diagnosing, "predicted", lambda table, *_: given(
        table, np.zeros((150, 2)), np.zeros(150), np.ones(150), np.full(150, 0.5)))
    arrays = {"centre": np.zeros(3), "spread": np.ones(3), "slopes": np.zeros(3), "edges": np.linspace(4, 8, 9),
              "beta_mean": np.zeros((1, 0)), "beta_root": np.zeros((1, 0, 0))}
    for tells in (True, False):
        own = here(study, posterior="given", tells_effect=tells)
        assert diagnosing.answer(own, "outcome", arrays).own["effect"].any() == tells


def test_a_diagnostic_is_asked_in_its_turn_and_at_the_slopes_that_the_sums_lead_to():
    """There is no second question of a kind: the next step is another, and a step carries no slopes."""
    talk, sites, opened, contract = begun({"a": trial(150, 0), "b": trial(120, 1)}, policy=STANDARD)
    model = talk.follow(course.design(contract, opened))
    assert model.converged
    for kind in ("propensity", "balance", "overlap"):
        refused = sites["a"].answer(Step("run", talk.round + 1, "a", diagnostic(kind), talk.previous))
        assert (refused.code, "instead of a Begin" in refused.reason) == (SiteError.code, True)
    refused = sites["a"].answer(Step("run", talk.round + 1, "a", diagnostic("outcome"), talk.previous))
    assert "instead of a Begin" in refused.reason
    with pytest.raises(SiteError, match="waits for the effects' draws"):
        diagnosing.answer(summing._here(sites["a"].run, sites["a"].run.prepared), "outcome", {})


# --- a site's own effect


@pytest.mark.parametrize(("treated", "e", "least", "tells"), [
    (30, 0.5, 10, True),  # 30 of 60 people, all of one weight
    (30, 0.01, 10, True),
    (0, 0.5, 0, False),  # nobody treated: what would be told is the model's alone
    (5, 0.5, 10, False)])
def test_an_own_effect_rests_on_enough_people_of_both_arms(treated, e, least, tells):
    assert own_effect(np.arange(60) < treated, np.full(60, e), least) is tells


def test_an_own_effect_that_rests_on_one_person_is_not_told():
    """One treated person whom the model takes for untreated counts a hundredfold: Σψ² would be their residual's
    square."""
    e = np.full(60, 0.5)
    assert own_effect(np.arange(60) < 30, e, 10)
    e[0] = 0.001
    assert not own_effect(np.arange(60) < 30, e, 10)


def own_effect(treated, e, least) -> bool:
    table, rules = SimpleNamespace(w=treated.astype(float)), SimpleNamespace(min_cell=least)
    return bool(diagnosing.tells_own_effect(SimpleNamespace(table=table, policy=rules), e))


def test_few_people_at_one_site_are_not_nobody():
    """A bin that one site hides and the others have nobody in is hidden, not empty; one that others fill has at least
    their number."""
    counts, hidden = np.zeros((2, overlap.BINS)), np.zeros((2, overlap.BINS))
    counts[1, :2], hidden[1, :2] = (0, 12), (1, 1)
    found = overlap._histogram(SimpleNamespace(counts=counts, hidden=hidden))
    assert found.treated[:2] == (None, 12)
    assert found.untreated[0] == 0
