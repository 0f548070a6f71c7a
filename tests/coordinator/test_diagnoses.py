"""Diagnostics over sites, up to the fit: federated = in one place; what a site hides, withholds and refuses."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fedci.coordinator import diagnoses
from fedci.coordinator.diagnoses import tried
from fedci.diagnostics import balance, overlap, propensity, sensitivity
from fedci.errors import MessageError
from fedci.protocol import course
from fedci.protocol.messages import Refusal
from fedci.protocol.requests import row_of
from support.diagnosed import arm_sums
from support.trials import STANDARD, begun, trial


def designed_by(talk, opened, contract):
    """The design, and what is made of its sums."""
    model = talk.follow(course.design(contract, opened))
    names = (*course.column_names(contract), *(f"{course.column_names(contract)[i]} missing"
                                               for i in opened.indicators))
    return SimpleNamespace(model=model, names=names, notes=talk.notes, opened=opened, talk=talk,
                           balance=diagnoses._balance(talk, names),
                           overlap=diagnoses._overlap(talk, opened, model, names))


def designed(frames, **changes):
    talk, _, opened, contract = begun(frames, **changes)
    return designed_by(talk, opened, contract)


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
    z = (x - found.opened.centre) / found.opened.spread
    intercepts = np.array([found.overlap.intercepts[name] for name in frames])
    e = 1 / (1 + np.exp(-(np.nan_to_num(z) @ found.model.slopes + intercepts[site])))
    return z, everyone.w.to_numpy(float), site, e


def test_the_propensity_model_is_where_the_pooled_gradient_vanishes(frames, found):
    """That of the joint model, with an intercept for each site. The objective is concave: one maximum. 1e-6 of sums
    over some 450 people."""
    z, w, site, e = together(frames, found)
    rows = np.hstack([np.nan_to_num(z), np.eye(3)[site]])
    at = np.append(found.model.slopes, list(found.overlap.intercepts.values()))
    assert found.names == ("age", "bmi", "sex", "bmi missing")
    assert np.abs(rows.T @ (w - e) - propensity.RIDGE * at).max() < 1e-6
    assert found.overlap.converged
    assert found.notes == found.overlap.withheld == ()


def test_balance_is_that_of_the_pooled_rows_and_of_each_sites_own(frames, found):
    z, w, site, e = together(frames, found)
    omega = balance.weights(w, e, w.mean())
    for told, chosen in ((found.balance.columns, slice(None)), (found.balance.sites[1].columns, site == 1)):
        expected = balance.differences(balance.arm_moments(arm_sums(z[chosen], w[chosen], omega[:, chosen])))
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

    def told(self, kind, site="a"):
        """The last answer of a site to a kind."""
        return [reply.sums for request, reply in self.left if (row_of(request).kind, request.site) == (kind, site)][-1]


def listened(frames, **changes):
    """(what was found, the engine)."""
    talk, _, opened, contract = begun(frames, **changes)
    talk.engine = Listening(talk.engine)
    return designed_by(talk, opened, contract), talk.engine


def test_small_counts_and_cells_stay_at_the_site():
    """What leaves under the policy 'standard': no count of 1 to 9, no sums of a trait that nine people have."""
    rare = {name: trial(150, k).assign(sex=(np.arange(150) % 15 == 0).astype(int)) for k, name in enumerate("ab")}
    found, engine = listened(rare, policy=STANDARD)
    shown, arms = engine.told("overlap"), engine.told("balance")
    for counts in (shown["counts"], shown["shares"], shown["where_size"]):
        assert not ((counts > 0) & (counts < 10)).any()
    assert shown["hidden"].any()
    assert not any(arms[name][..., 2].any() for name in ("told", "size", "first", "second"))
    assert not engine.told("propensity")["hessian"][2].any()
    assert found.balance.columns[2].before is None
    assert found.balance.columns[0].before is not None
    shapes = {array.shape for _, reply in engine.left for array in reply.sums.values()}
    assert not any(150 in shape for shape in shapes)
    assert None in found.overlap.histogram.treated


def test_the_number_of_a_few_missing_values_stays_at_the_site():
    """No indicator says who they are; the sizes of the column itself must not tell their number either."""
    gaps = trial(150, 0)
    gaps.loc[[3, 7, 20], "bmi"] = np.nan
    found, engine = listened({"a": gaps, "b": trial(120, 1)}, policy=STANDARD, missing="impute")
    told = engine.told("balance")
    assert list(told["size"][0, :, 1]) == list(told["weight"][0]) == [150 - gaps.w.sum(), gaps.w.sum()]
    assert found.names == ("age", "bmi", "sex")
    assert found.talk.totals["AskMeans"].sites["a"]["count"][1] == 150
    assert found.balance.columns[1].before is not None


def test_weights_that_few_people_of_a_site_carry_stay_there_and_the_others_are_summed():
    """Where ages decide about treatment, overlap weights are a few people's: the sum of all would tell of them."""
    rows = {name: trial(150, k) for k, name in enumerate(("one", "two"))}
    far = trial(150, 2)
    rows["sharp"] = far.assign(w=(far.age > 60).astype(int), age=60 + 20 * (far.age - 60))
    found = designed(rows, policy=STANDARD | {"secure_sum": False})
    own = {one.site: one.columns[0] for one in found.balance.sites}
    assert own["sharp"].before is not None
    assert own["sharp"].after_overlap is None
    assert own["one"].after_overlap is not None
    told = found.talk.totals["AskDiagnostic.balance"]
    assert list(told.sums["carried"]) == [3, sum(part["carried"][1] for part in told.sites.values()), 2]
    for name in ("size", "first", "second"):
        np.testing.assert_allclose(told.sums[name][2], sum(told.sites[site][name][2] for site in ("one", "two")))


class Silent:
    """Sites whose people refuse some kinds of diagnostics."""

    def __init__(self, engine, kinds, refusing):
        self.engine, self.sites, self.kinds, self.refusing = engine, engine.sites, kinds, refusing

    def exchange(self, requests):
        return {name: Refusal(r.run, r.round, name, "disclosure", f"not {row_of(r).kind} at {name}")
                if row_of(r).kind in self.kinds and name in self.refusing
                else self.engine.exchange({name: r})[name] for name, r in requests.items()}


@pytest.mark.parametrize("refusing", ["a", "b", "ab"])
@pytest.mark.parametrize("kind", ["propensity", "balance", "overlap"])
def test_whatever_the_sites_refuse_the_study_goes_on_and_says_so(frames, kind, refusing):
    """A diagnostic that one site refuses is given up at all, and what needs it is not asked for."""
    talk, sites, opened, contract = begun({"a": frames["s0"], "b": frames["s2"]})
    talk.engine = Silent(talk.engine, (kind,), refusing)
    found = designed_by(talk, opened, contract)
    assert found.model is found.overlap is None
    assert (found.balance is None) == (kind != "overlap")
    assert found.notes == (f"the diagnostic '{kind}' was given up: site '{refusing[0]}': not {kind} at {refusing[0]}",)
    talk.follow(course.start(contract, opened))
    assert {site.run.course.place(talk.round).leg for site in sites.values()} == {course.START}


def test_a_filter_that_takes_out_a_sum_is_named(frames):
    talk, _, opened, contract = begun({"a": frames["s0"]})

    class Filtered(Listening):
        def exchange(self, requests):
            return {name: replace(reply, sums={k: v for k, v in reply.sums.items() if k != "hessian"})
                    for name, reply in self.engine.exchange(requests).items()}

    talk.engine = Filtered(talk.engine)
    with pytest.raises(MessageError, match="AskDiagnostic.propensity without 'hessian'"):
        designed_by(talk, opened, contract)


# --- a site's own effect


def test_a_section_without_a_finite_answer_is_a_note_and_the_others_stand():
    made, failed = tried({"fit": lambda: 1.0, "sensitivity": lambda: sensitivity.summary(
        np.inf, 0.2, 0.6, 1.4, 2.0, 100, 0.3, (1.0, 0.5), ()), "heterogeneity": lambda: 1.0 / 0})
    assert made == {"fit": 1.0}
    assert [text.split("'")[1] for text in failed] == ["sensitivity", "heterogeneity"]
