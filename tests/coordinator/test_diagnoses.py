"""Diagnostics over sites, up to the fit: federated = in one place; what a site refuses, hides and withholds."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedci.coordinator.diagnoses import design, tried
from fedci.diagnostics import balance, overlap, propensity, sensitivity
from fedci.errors import MessageError
from fedci.protocol.messages import Refusal
from support.trials import STANDARD, begun, trial


def designed(frames, **changes):
    talk, sites, layout = begun(frames, **changes)
    return design(talk, next(iter(sites.values())).run.study, layout.moments, layout.indicators)


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
    found = design(talk, sites["a"].run.study, layout.moments, layout.indicators)
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
    found = design(talk, sites["a"].run.study, layout.moments, layout.indicators)
    told = next(reply.sums for request, reply in talk.engine.left
                if (request.kind, request.site) == ("balance", "a"))
    assert list(told["size"][0, :, 1]) == list(told["weight"][0]) == [150 - gaps.w.sum(), gaps.w.sum()]
    assert not told["told"][:, 3].any()
    assert found.balance.columns[1].before is not None


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
    found = design(talk, sites["a"].run.study, layout.moments, layout.indicators)
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
        design(talk, sites["a"].run.study, layout.moments, layout.indicators)


# --- a site's own effect


def test_a_section_without_a_finite_answer_is_a_note_and_the_others_stand():
    made, failed = tried({"fit": lambda: 1.0, "sensitivity": lambda: sensitivity.summary(
        np.inf, 0.2, 0.6, 1.4, 2.0, 100, 0.3, (1.0, 0.5), ()), "heterogeneity": lambda: 1.0 / 0})
    assert made == {"fit": 1.0}
    assert [text.split("'")[1] for text in failed] == ["sensitivity", "heterogeneity"]
