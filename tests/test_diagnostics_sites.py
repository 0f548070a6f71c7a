"""Diagnostics over sites, up to the fit: federated = in one place; what a site refuses, hides and withholds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fedci import Source
from fedci.coordinator.coordinator import agree_units, handshake
from fedci.coordinator.diagnoses import design
from fedci.coordinator.talk import Talk
from fedci.diagnostics import balance, overlap, propensity
from fedci.errors import MessageError, SiteError
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import AskDiagnostic, Prepare, Refusal, Reply
from fedci.protocol.requests import REQUESTS
from fedci.site import diagnosing
from fedci.site.site import Site
from tests_support import frame, study

STANDARD = {"name": "standard", "max_rounds": 200}


def trial(rows: int, seed: int, shift: float = 0.0, steep: float = 1.0) -> pd.DataFrame:
    """Treatment by a logistic model of age; `shift` moves age, in years."""
    rng = np.random.default_rng((seed, 5))
    age, bmi, sex = rng.normal(60, 10, rows) + shift, rng.normal(26, 4, rows), rng.integers(0, 2, rows)
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-steep * (age - shift - 60) / 10))).astype(int)
    return pd.DataFrame({"age": age, "bmi": bmi, "sex": sex, "w": w, "y": age / 10 + w + rng.normal(size=rows)})


def begun(frames, **changes) -> tuple[Talk, dict[str, Site], object]:
    """Sites that know the common units, as they stand before the fit."""
    plan = study(diagnostics={}, **changes)
    sites = {name: Site(plan, Source(name, rows).read(plan)) for name, rows in frames.items()}
    talk = Talk(InProcessEngine(sites), "run")
    handshake(talk, plan, plan.fit_options())
    return talk, sites, agree_units(talk, plan, plan.fit_options())


def designed(frames, **changes):
    talk, sites, layout = begun(frames, **changes)
    return design(talk, next(iter(sites.values())).study, layout.moments, layout.indicators)


@pytest.fixture(scope="module")
def frames():
    made = {f"s{k}": trial(120 + 30 * k, k) for k in range(3)}
    made["s1"].loc[3:12, "bmi"] = np.nan
    return made


@pytest.fixture(scope="module")
def found(frames):
    return designed(frames, missing="impute")


def together(frames, found):
    """(standardised columns, w, site, propensity) of all rows in one place."""
    everyone = pd.concat(frames.values())
    x = everyone[["age", "bmi", "sex"]].to_numpy(float)
    x = np.column_stack([x, np.isnan(x[:, 1])])
    site = np.repeat(np.arange(3), [len(rows) for rows in frames.values()])
    centre, spread = found.scales
    z = (x - centre) / spread
    zero = np.nan_to_num(z)
    e = 1 / (1 + np.exp(-(zero @ found.model.slopes + found.model.intercepts[site])))
    return z, everyone.w.to_numpy(float), site, e


def test_the_propensity_model_is_where_the_pooled_gradient_vanishes(frames, found):
    """The objective is concave: one maximum. 1e-6 of sums over some 450 people."""
    z, w, site, e = together(frames, found)
    rows = np.hstack([np.nan_to_num(z), np.eye(3)[site]])
    assert found.names == ("age", "bmi", "sex", "bmi missing")
    assert np.abs(rows.T @ (w - e) - propensity.RIDGE * found.model.coefficients).max() < 1e-6
    assert found.willing == ("s0", "s1", "s2")
    assert found.overlap.converged


def test_balance_is_that_of_the_pooled_rows_and_of_each_sites_own(frames, found):
    z, w, site, e = together(frames, found)
    omega = balance.weights(w, e, w.mean())
    for told, chosen in ((found.balance.columns, slice(None)), (found.balance.sites[1].columns, site == 1)):
        expected = balance.differences(balance.arm_moments(z[chosen], w[chosen], omega[:, chosen]))
        for c, one in enumerate(told):
            both = [one.before, one.after, one.after_overlap]
            np.testing.assert_allclose(both, expected[:, c], rtol=1e-8, atol=1e-12)


def test_overlap_counts_are_those_of_the_pooled_rows(frames, found):
    _, w, site, e = together(frames, found)
    share = np.array([w[site == s].mean() for s in range(3)])[site]
    odds = e / (1 - e) * (1 - share) / share
    f = odds / (1 + odds)
    for arm, told in enumerate((found.overlap.histogram.untreated, found.overlap.histogram.treated)):
        assert list(told) == list(np.histogram(f[w == arm], overlap.EDGES)[0])
    assert found.overlap.equipoise == pytest.approx(np.mean((f >= 0.3) & (f < 0.7)))
    assert found.overlap.outside == pytest.approx(np.mean((f < 0.1) | (f >= 0.9)))
    omega = balance.weights(w, e, w.mean())[1]
    for arm, told in enumerate((found.overlap.effective_untreated, found.overlap.effective_treated)):
        assert told == pytest.approx(omega[w == arm].sum() ** 2 / (omega[w == arm] ** 2).sum())


def test_what_decided_is_the_signed_mean_of_those_outside(frames, found):
    z, w, site, e = together(frames, found)
    share = np.array([w[site == s].mean() for s in range(3)])[site]
    odds = e / (1 - e) * (1 - share) / share
    outside = (odds < 1 / 9) | (odds >= 9)
    value = np.nanmean(np.where(odds < 1, -1, 1)[outside, None] * z[outside], axis=0)
    part = found.model.slopes * value
    for one in found.overlap.where:
        c = found.names.index(one.column)
        assert one.value == pytest.approx(value[c])
        assert one.share == pytest.approx(part[c] / np.abs(part).sum())
    assert len(found.overlap.where) == 4


def test_the_saved_model_gives_each_persons_propensity(frames, found):
    _, _, site, e = together(frames, found)
    rows = frames["s1"][["age", "bmi", "sex"]].to_numpy(float)
    rows = np.column_stack([rows, np.isnan(rows[:, 1])])
    np.testing.assert_allclose(found.overlap.propensity(rows, "s1"), e[site == 1], rtol=1e-10)


# --- what the verdicts say of designs whose answer is known


def test_a_randomised_trial_is_fine():
    """Differences of chance have sd √(4/n) = 0.045 here: 0.1 is beyond 2.2 of them, in none of three covariates."""
    made = {name: trial(1000, k, steep=0.0) for k, name in enumerate(("a", "b"))}
    found = designed(made)
    words = {one.name: one.verdict for one in (*found.balance.verdicts, *found.overlap.verdicts)}
    assert set(words.values()) == {"fine"}
    assert found.overlap.equipoise > 0.95
    assert found.overlap.outside == 0.0
    assert found.overlap.effective_treated > 0.98 * sum(rows.w.sum() for rows in made.values())


def test_treatment_decided_by_age_is_outside_support_because_of_age():
    found = designed({name: trial(400, k, steep=6.0) for k, name in enumerate(("a", "b"))})
    verdict = next(one for one in found.overlap.verdicts if one.name == "common support")
    assert verdict.verdict == "problem"
    assert "above all age (" in verdict.words
    assert found.overlap.outside > 0.5
    assert found.overlap.where[0].column == "age"
    assert found.overlap.where[0].share > 0.9
    quiet = {one.name: one.verdict for one in found.overlap.verdicts}
    assert quiet["equipoise"] == "look" or quiet["equipoise"] == "problem"
    assert quiet["people across sites"] == "fine"


def test_people_outside_are_described_by_the_covariate_that_put_them_there():
    """Only old people are always treated: they are outside, and age says so."""
    def one(seed):
        rows = trial(500, seed, steep=0.0)
        old = rows.age > 70
        return rows.assign(w=np.where(old, 1, rows.w), age=np.where(old, rows.age + 30, rows.age))

    found = designed({"a": one(0), "b": one(1)})
    where = found.overlap.where
    assert where[0].column == "age"
    assert where[0].value > 1.0
    assert where[0].share > 0.9
    assert "above all age (" in next(v.words for v in found.overlap.verdicts if v.name == "common support")


def test_a_site_with_other_people_is_named_with_its_covariate():
    found = designed({"a": trial(200, 0), "b": trial(200, 1), "far": trial(200, 2, shift=40.0)})
    worst = max(found.overlap.shifts, key=lambda one: abs(one.value))
    assert (worst.site, worst.column) == ("far", "age")
    verdict = next(one for one in found.overlap.verdicts if one.name == "people across sites")
    assert verdict.verdict == "problem"
    assert "'far'" in verdict.words
    assert "age" in verdict.words


def test_one_site_alone_is_compared_with_no_other():
    found = designed({"a": trial(150, 0)})
    assert found.overlap.shifts == ()
    assert "balance within sites" not in {one.name for one in found.balance.verdicts}
    assert found.overlap.equipoise > 0


# --- disclosure


class Listening:
    """An engine that keeps what left."""

    def __init__(self, engine):
        self.engine, self.sites, self.left = engine, engine.sites, []

    def exchange(self, requests):
        replies = self.engine.exchange(requests)
        self.left += [(requests[name], reply) for name, reply in replies.items()]
        return replies


def test_small_counts_and_cells_stay_at_the_site():
    """What leaves under the policy 'standard': no count of 1 to 9, no moments of a trait that nine people have."""
    rare = {name: trial(150, k).assign(sex=(np.arange(150) % 15 == 0).astype(int)) for k, name in enumerate("ab")}
    talk, sites, layout = begun(rare, policy=STANDARD)
    talk.engine = Listening(talk.engine)
    found = design(talk, sites["a"].study, layout.moments, layout.indicators)
    replies = {request.kind: reply for request, reply in talk.engine.left if request.site == "a"}
    shown = replies["overlap"].sums
    for counts in (shown["counts"], shown["totals"]):
        assert not ((counts > 0) & (counts < 10)).any()
    assert shown["hidden"].any()
    assert not replies["balance"].sums["told"][:, 2].any()
    assert not replies["balance"].sums["mean"][:, :, 2].any()
    assert found.balance.columns[2].before is None
    assert found.balance.columns[0].before is not None
    assert all(float(f"{v:.4g}") == v for v in replies["balance"].sums["mean"].ravel())
    shapes = {name: array.shape for reply in replies.values() for name, array in reply.sums.items()}
    assert not any(150 in shape for shape in shapes.values())
    assert None in found.overlap.histogram.treated


def test_the_number_of_a_few_missing_values_stays_at_the_site():
    """Its indicator is a small cell; the sizes of the column itself must not tell it either."""
    gaps = trial(150, 0)
    gaps.loc[[3, 7, 20], "bmi"] = np.nan
    talk, sites, layout = begun({"a": gaps, "b": trial(120, 1)}, policy=STANDARD, missing="impute")
    talk.engine = Listening(talk.engine)
    found = design(talk, sites["a"].study, layout.moments, layout.indicators)
    told = next(reply.sums for request, reply in talk.engine.left
                if (request.kind, request.site) == ("balance", "a"))
    assert list(told["size"][0, :, 1]) == list(told["weight"][0]) == [150 - gaps.w.sum(), gaps.w.sum()]
    assert not told["told"][:, 3].any()
    assert found.balance.columns[1].before is not None


def ask(sites, kind="overlap", site="a", number=9, **changes):
    base = {"centre": np.zeros(3), "spread": np.ones(3), "coefficients": np.zeros(5)}
    base |= {"share": np.array(0.5)} if kind == "balance" else {}
    return sites[site].answer(AskDiagnostic("run", number, site, kind, base | changes))


@pytest.fixture
def sites():
    return begun({"a": trial(150, 0), "b": trial(120, 1)}, policy=STANDARD)[1]


def test_weights_that_few_people_carry_are_refused_or_withheld(sites):
    """Slopes that leave the youngest treated person with all the weight: their covariates would be the mean."""
    table = sites["a"].table
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
    table = sites["a"].table
    predicted = table.x[:, 0] / 10
    place = np.linspace(0.2, 0.8, 150)
    place[:3] = 0.01
    monkeypatch.setattr(diagnosing, "_left_out", lambda here, mean, root: (
        np.column_stack([predicted, predicted + 1]), predicted, np.ones(150), place))
    sites["a"].posterior = "given"
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
    told = Prepare("run", 11, "a", np.zeros(3), np.ones(3), 0.0, 1.0, np.zeros(24), 0, 2, np.zeros(0, int))
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


def test_a_site_that_may_not_tell_is_left_out_and_named():
    """Too few people for so many columns: refused by the site, and the others' diagnostics go on."""
    policy = STANDARD | {"statistics_per_row": 0.04}
    found = designed({"big": trial(150, 0), "little": trial(60, 1)}, policy=policy)
    assert found.willing == ("big",)
    assert found.overlap.withheld == ("little",)
    assert any("little" in text for text in found.notes)
    assert "little" in next(one.words for one in found.overlap.verdicts if one.name == "sites that do not tell")
    own = {one.site: one for one in found.balance.sites}
    assert own["little"].columns[0].before is not None
    assert own["little"].columns[0].after is None
    nobody = designed({"one": trial(60, 0), "two": trial(60, 1)}, policy=policy)
    assert nobody.model is nobody.overlap is None
    assert nobody.balance.columns[0].before is not None
    assert nobody.balance.columns[0].after is None


class Silent:
    """Sites whose people refuse some kinds of diagnostics."""

    def __init__(self, engine, kinds):
        self.engine, self.sites, self.kinds = engine, engine.sites, kinds

    def exchange(self, requests):
        return {name: Refusal(r.run, r.round, name, "disclosure", f"not {r.kind} at {name}") if r.kind in self.kinds
                else self.engine.exchange({name: r})[name] for name, r in requests.items()}


@pytest.mark.parametrize("kinds", [("balance",), ("overlap",), ("propensity", "balance"), ("balance", "overlap")])
def test_whatever_the_sites_refuse_the_study_goes_on_and_says_so(frames, kinds):
    talk, sites, layout = begun({"a": frames["s0"], "b": frames["s2"]})
    talk.engine = Silent(talk.engine, kinds)
    found = design(talk, sites["a"].study, layout.moments, layout.indicators)
    assert (found.balance is None) == ("balance" in kinds)
    if "propensity" in kinds:
        assert found.overlap is None
    elif "overlap" in kinds:
        assert found.overlap.equipoise is None
    else:
        assert found.overlap.equipoise > 0
        assert found.overlap.effective_treated is None
    assert {f"not {kind} at {name}" for kind in kinds for name in "ab"} == set(found.notes)


def test_a_filter_that_takes_out_a_sum_is_named(frames):
    talk, sites, layout = begun({"a": frames["s0"]})

    class Filtered(Listening):
        def exchange(self, requests):
            return {name: replace(reply, sums={k: v for k, v in reply.sums.items() if k != "hessian"})
                    for name, reply in self.engine.exchange(requests).items()}

    talk.engine = Filtered(talk.engine)
    with pytest.raises(MessageError, match="AskDiagnostic.propensity without 'hessian'"):
        design(talk, sites["a"].study, layout.moments, layout.indicators)


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
