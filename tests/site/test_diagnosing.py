"""A site's side of the diagnostics: what it refuses, hides and withholds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fedci import Source
from fedci.diagnostics import overlap, propensity
from fedci.errors import MessageError, SiteError
from fedci.protocol.messages import AskDiagnostic, Prepare, Refusal, Reply
from fedci.protocol.requests import REQUESTS
from fedci.site import diagnosing
from fedci.site.site import Site
from support.trials import STANDARD, begun, trial
from tests_support import frame, study


@pytest.fixture
def sites():
    return begun({"a": trial(150, 0), "b": trial(120, 1)}, policy=STANDARD)[1]


def ask(sites, kind="overlap", site="a", number=9, **changes):
    base = {"centre": np.zeros(3), "spread": np.ones(3), "coefficients": np.zeros(5)}
    base |= {"share": np.array(0.5)} if kind == "balance" else {}
    return sites[site].answer(AskDiagnostic("run", number, site, kind, base | changes))


def test_weights_that_few_people_carry_are_refused_or_withheld(sites):
    """Slopes that leave the youngest treated person with all the weight: their covariates would be the mean."""
    table = sites["a"].run.table
    young = np.sort(table.x[table.w == 1, 0])[:2]
    steep = np.array([40.0 / (young[1] - young[0]), 0.0, 0.0, 0.0, 0.0])
    scales = {"centre": np.array([young.mean(), 0.0, 0.0]), "coefficients": steep}
    refused = ask(sites, "propensity", **scales)
    assert isinstance(refused, Refusal)
    assert refused.code == "disclosure"
    told = ask(sites, "balance", **scales).sums
    assert not told["told"][1:].any()
    assert not told["mean"][1:].any()
    assert not told["square"][1:].any()


def test_small_bins_of_predictions_stay_at_the_site(sites, monkeypatch):
    """What the model says of each person is given here; the bins around the middle are large, the outer ones small."""
    table = sites["a"].run.table
    predicted = table.x[:, 0] / 10
    place = np.linspace(0.2, 0.8, 150)
    place[:3] = 0.01
    monkeypatch.setattr(diagnosing, "_left_out", lambda here, q, mean, root: (
        np.column_stack([predicted, predicted + 1]), predicted, np.ones(150), place))
    sites["a"].run = replace(sites["a"].run, posterior="given")
    told = ask(sites, "outcome", edges=np.linspace(4.5, 7.5, 9), beta_mean=np.zeros((1, 0)),
               beta_root=np.zeros((1, 0, 0))).sums
    counts = np.bincount((place * 20).astype(int), minlength=20)
    assert counts[0] == 3
    assert told["places_hidden"][0]
    assert told["places_hidden"].sum() >= 2  # a second one, or the total would tell the first
    for shown in (told["places"], told["bins"][:, 0]):
        assert not ((shown > 0) & (shown < 10)).any()
    assert told["bins_hidden"].any()
    assert not told["bins"][told["bins_hidden"]].any()
    assert all(float(f"{v:.4g}") == v for v in told["bins"][:, 1:].ravel())
    assert told["effect"][0] == 150
    assert not any(150 in array.shape for array in told.values())


def test_a_second_question_of_a_kind_is_refused_and_the_first_is_answered_again(sites):
    first = ask(sites)
    assert isinstance(first, Reply)
    again = ask(sites, number=10)
    assert all(np.array_equal(first.sums[array.name], again.sums[array.name])
               for array in REQUESTS["AskDiagnostic.overlap"].answer)
    other = ask(sites, coefficients=np.full(5, 1e-3))
    assert (other.code, "answered at other parameters" in other.reason) == (SiteError.code, True)
    told = Prepare("run", 11, "a", x_mean=np.zeros(3), x_sd=np.ones(3), y_mean=0.0, y_sd=1.0, u=np.zeros(24), index=0,
                   sites=2, indicators=np.zeros(0, int))
    assert sites["a"].answer(told).code == SiteError.code  # nor do new units open it again: they are refused
    assert ask(sites, coefficients=np.full(5, 1e-3)).code == SiteError.code
    for step in range(propensity.STARTS * propensity.STEPS):
        assert isinstance(ask(sites, "propensity", coefficients=np.full(5, 1e-5 * step)), Reply)
    assert ask(sites, "propensity", coefficients=np.full(5, -1e-3)).code == SiteError.code


@pytest.mark.parametrize("kind, changes", [
    ("overlap", {"centre": np.zeros(2)}), ("overlap", {"spread": np.zeros(3)}), ("overlap", {"extra": np.zeros(1)}),
    ("overlap", {"coefficients": np.zeros(3)}), ("overlap", {"coefficients": np.zeros((5, 1))}),
    ("overlap", {"coefficients": np.zeros(5, int)}), ("overlap", {"coefficients": np.full(5, np.nan)}),
    ("overlap", {"coefficients": np.zeros(20_000)}), ("balance", {"share": np.zeros(1)}),
])
def test_parameters_that_do_not_fit_are_refused(sites, kind, changes):
    assert ask(sites, kind, **changes).code == MessageError.code


def test_unknown_kinds_and_questions_out_of_turn_are_refused(sites):
    assert "does not know" in ask(sites, "rows").reason
    values = {"edges": np.zeros(9), "beta_mean": np.zeros((1, 0)), "beta_root": np.zeros((1, 0, 0))}
    assert "out of turn" in ask(sites, "outcome", **values).reason
    plan = study(diagnostics={})
    fresh = Site(plan, Source("a", frame(40, 0)).read(plan))
    assert "out of turn" in fresh.answer(AskDiagnostic("run", 1, "a", "overlap", {})).reason


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
    return bool(diagnosing._tells_own_effect(SimpleNamespace(table=table, policy=rules), e))


def test_few_people_at_one_site_are_not_nobody():
    """A bin that one site hides and the others have nobody in is hidden, not empty; one that others fill has at least
    their number."""
    def counts(first, hidden):
        bins, away = np.zeros((2, overlap.BINS), int), np.zeros((2, overlap.BINS), bool)
        bins[1, :2], away[1, :2] = first, hidden
        return SimpleNamespace(counts=bins, hidden=away)

    found = overlap._histogram([counts((0, 12), (False, False)), counts((0, 0), (True, True))])
    assert found.treated[:2] == (None, 12)
    assert found.untreated[0] == 0
