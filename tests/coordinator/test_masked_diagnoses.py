"""Diagnostics under secure sums: the coordinator gets sums over all sites, of a site only what is told of sites."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fedci import Source
from fedci.coordinator import diagnoses
from fedci.coordinator.coordinator import handshake, open_course, run_study
from fedci.coordinator.talk import Talk
from fedci.errors import DisclosureError, MessageError
from fedci.privacy import secure_sum
from fedci.protocol import course
from fedci.protocol.codec import decode, encode
from fedci.protocol.course import Contract
from fedci.protocol.messages import Refusal
from fedci.protocol.requests import MASKED, OWN, REQUESTS, asked, diagnostic, row_of
from fedci.site import diagnosing, summing
from fedci.site.door import Door
from fedci.site.ledger import Ledger, read
from fedci.site.left_out import Predicted
from fedci.site.site import Site
from support.masked import FEW, SIZES
from tests_support import STANDARD_OTHERWISE, Wire, hospitals, study

PLAIN, MASKS = {"name": "simulation"}, {"name": "simulation", "secure_sum": True}
STANDARD = {**STANDARD_OTHERWISE, "max_rounds": 200}


def people(rows: int, seed: int, steep: float = 0.5, spread: float = 10.0) -> pd.DataFrame:
    """Treatment by a logistic model of age."""
    rng = np.random.default_rng((seed, 8))
    age, bmi, sex = rng.normal(60, spread, rows), rng.normal(26, 4, rows), rng.integers(0, 2, rows)
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-steep * (age - 60) / 10))).astype(int)
    return pd.DataFrame({"age": age, "bmi": bmi, "sex": sex, "w": w, "y": age / 10 + w + rng.normal(size=rows)})


def begun(frames, policy, change=lambda request, reply: reply):
    """(talk, what all know, contract, sites) before the design."""
    plan = study(diagnostics={}, policy=policy)
    sites = {name: Site(plan, Source(name, rows).read(plan)) for name, rows in frames.items()}
    talk, contract = Talk(Wire(sites, change), "run"), Contract(plan, tuple(sorted(sites)))
    handshake(talk, contract)
    talk, opened = open_course(talk, contract)
    return talk, opened, contract, sites


def designed(frames, policy, change=lambda request, reply: reply):
    """(the design's diagnostics, the wire)."""
    talk, opened, contract, sites = begun(frames, policy, change)
    model, names = talk.follow(course.design(contract, opened)), course.column_names(contract)
    found = SimpleNamespace(model=model, notes=talk.notes, talk=talk, known=(contract, opened), sites=sites,
                            balance=diagnoses._balance(talk, names),
                            overlap=diagnoses._overlap(talk, opened, model, names))
    return found, talk.engine


@pytest.fixture(scope="module")
def frames():
    return {f"s{k}": people(100 + 10 * k, k) for k in range(3)}


def replies_to(wire, kind):
    return [(request, reply) for request, reply in wire.said if asked(request) == f"AskDiagnostic.{kind}"]


def test_the_propensity_models_sums_reach_the_coordinator_masked(frames):
    """What the engine carries of a site is uniform integers, and the model is the plain one to the rounding of a
    Newton step."""
    found, wire = designed(frames, MASKS)
    plain, _ = designed(frames, PLAIN)
    said = replies_to(wire, "propensity")
    assert len(said) >= 3 * 3
    for _, reply in said:
        assert reply.sums.keys() == {MASKED}
        assert reply.notes.keys() == {"shares"}
        bits = np.unpackbits(reply.sums[MASKED].view(np.uint8))
        assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)  # five standard deviations: 6e-7 for each answer
    np.testing.assert_allclose(found.model.slopes, plain.model.slopes, rtol=1e-9, atol=1e-12)
    assert found.overlap.histogram == plain.overlap.histogram
    assert found.overlap.equipoise == plain.overlap.equipoise
    assert found.overlap.effective_treated == pytest.approx(plain.overlap.effective_treated, rel=1e-8)
    for one, two in zip(found.balance.columns, plain.balance.columns, strict=True):
        assert (one.before, one.after) == pytest.approx((two.before, two.after), rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("kind", ["propensity", "balance", "overlap"])
def test_the_opened_sum_is_that_of_the_sites_own_numbers(frames, kind):
    """In fixed point, to the bit."""
    talk, opened, contract, sites = begun(frames, MASKS)
    steps = course.design(contract, opened)
    ask = next(steps)
    while ask.name != f"AskDiagnostic.{kind}":
        ask = steps.send(talk.total(ask).sums)
    total = talk.total(ask).sums
    own = [diagnosing.answer(summing._here(site.run, site.run.prepared), kind, ask.arrays).sums
           for site in sites.values()]
    for name, part in total.items():
        integers = sum(secure_sum.encode(one[name], 3, secure_sum.WIDE) for one in own)
        assert np.array_equal(np.ravel(part), secure_sum.decode(integers, secure_sum.WIDE))


def test_no_site_is_told_apart_in_the_design(frames):
    """But for its own intercept, with which the result gives propensities at the site."""
    found, wire = designed(frames, MASKS)
    beside = {asked(request): reply.sums.keys() - {MASKED} for request, reply in wire.said
              if row_of(request).phase == "design"}
    assert beside == {"AskDiagnostic.propensity": set(), "AskDiagnostic.balance": set(),
                      "AskDiagnostic.overlap": {OWN + "intercept"}}
    assert found.balance.sites == found.overlap.sites == found.overlap.shifts == ()
    assert found.overlap.intercepts.keys() == {"s0", "s1", "s2"}


def test_weights_that_few_people_carry_are_not_in_the_sum():
    """At one site ages differ so much that they decide about treatment: the sum is the others' alone, masked as in the
    clear, and how many sites it is of is known."""
    frames = {name: people(rows, seed, 2.0) for seed, (name, rows) in enumerate({"a": 150, "b": 140, "c": 130}.items())}
    frames["sharp"] = people(60, 3, 2.0, spread=100.0)
    (found, _), (plain, _) = (designed(frames, STANDARD | secure) for secure in ({}, {"secure_sum": False}))
    one, two = (each.talk.totals["AskDiagnostic.balance"] for each in (found, plain))
    assert not two.sites["sharp"]["carried"][2]
    assert not two.sites["sharp"]["first"][2].any()
    np.testing.assert_array_equal(one.sums["carried"], two.sums["carried"])
    assert one.sums["carried"][2] == 3
    np.testing.assert_allclose(one.sums["first"], two.sums["first"], rtol=1e-6, atol=1e-6)


def test_an_open_refusal_keeps_the_sum_closed_and_the_study_goes_on(frames):
    def declines(request, reply):
        if asked(request) == "AskDiagnostic.propensity" and request.site == "s1":
            return Refusal(request.run, request.round, request.site, DisclosureError.code, "the operator said no")
        return reply

    found, wire = designed(frames, MASKS, declines)
    assert found.model is found.overlap is found.balance is None
    assert found.notes == ("the diagnostic 'propensity' was given up: site 's1': the operator said no",)
    assert asked(wire.said[-1][0]) == "AskDiagnostic.propensity"  # nobody was asked to open it
    found.talk.follow(course.start(*found.known))
    assert {site.run.course.place(found.talk.round).leg for site in found.sites.values()} == {course.START}


NOT_ASKED = ("AskTimes", "AskExposure", "AskMoments", diagnostic("missingness"))
"""Of a study of numbers, none of which are missing, with rounds (AskMoments: tests/model/shared/test_few_family.py)."""
SPOILED = [(row.name, name) for row in REQUESTS.values() if row.phase in ("moments", "design")
           and row.name not in NOT_ASKED for name in sorted(row.leaves(secure=False))]


@pytest.mark.parametrize("to, name", SPOILED, ids=[f"{to}-{name}" for to, name in SPOILED])
def test_an_answer_of_another_form_is_refused_and_its_site_named(frames, to, name):
    """In the clear: a row more, or numbers that no sum over people has."""
    for spoil in (lambda part: np.concatenate([np.atleast_1d(part)] * 2), lambda part: np.full(part.shape, 1e300)):
        def broken(request, reply, spoil=spoil):
            if asked(request) == to and request.site == "s1":
                return replace(reply, sums=dict(reply.sums) | {name: spoil(reply.sums[name])})
            return reply

        with pytest.raises(MessageError, match=f"site 's1' answered with '{name}'") as problem:
            designed(frames, PLAIN, broken)
        assert problem.value.site == "s1"


class Doors:
    """Sites behind their doors, each with its ledger."""

    def __init__(self, sites, folder):
        self.sites, self.said = tuple(sorted(sites)), []
        self.doors = {name: Door(site, Ledger(folder / name), folder / name) for name, site in sites.items()}

    def exchange(self, requests):
        back = {name: decode(self.doors[name].answer(encode(request))) for name, request in requests.items()}
        self.said += [(requests[name], reply) for name, reply in back.items()]
        return back


def predictions(table, *fitted):
    """In the place of the fitted model, which would have to be compiled: what it says of each person without them."""
    rng = np.random.default_rng(table.rows)
    predicted = table.y + rng.normal(size=table.rows)
    return Predicted(y=table.y, w=table.w, arms=np.column_stack([predicted, predicted + 1]), mean=predicted,
                     sd=np.ones(table.rows), place=rng.uniform(size=table.rows), person=np.arange(table.rows))


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """((diagnostics, the engine) masked and through doors, the same in the clear, the ledgers' folder)."""
    found, folder = [], tmp_path_factory.mktemp("doors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnosing, "predicted", predictions)
        for policy in (MASKS, PLAIN):
            plan = study(diagnostics={}, policy=policy, options=FEW)
            sites = {source.name: Site(plan, source.read(plan)) for source in hospitals(*SIZES)}
            engine = Doors(sites, folder) if policy is MASKS else Wire(sites)
            found.append((run_study(engine, plan).diagnostics, engine))
    return *found, folder


def test_the_checks_of_the_fit_are_masked_but_for_what_is_told_of_sites(checked):
    (one, wire), (two, _), _ = checked
    for _, reply in replies_to(wire, "outcome"):
        assert reply.sums.keys() == {MASKED, OWN + "effect", OWN + "residuals"}
    assert one.fit.places == two.fit.places
    for ours, theirs in zip(one.fit.calibration, two.fit.calibration, strict=True):
        assert ours.model_dump() == pytest.approx(theirs.model_dump(), rel=1e-6)
    assert (one.fit.slope, one.fit.explained) == pytest.approx((two.fit.slope, two.fit.explained), rel=1e-6)
    assert [row.model_dump() for row in one.fit.residuals] == [row.model_dump() for row in two.fit.residuals]
    for ours, theirs in zip(one.heterogeneity.sites, two.heterogeneity.sites, strict=True):
        assert (ours.people, ours.own.mean, ours.se) == pytest.approx((theirs.people, theirs.own.mean, theirs.se),
                                                                      rel=1e-7)
    assert one.notes == two.notes == ()


def test_the_ledger_names_what_is_told_of_a_site_and_what_is_masked(checked):
    (_, wire), _, folder = checked
    lines = [line for line in read(folder / wire.sites[0]) if line["request"].startswith("AskDiagnostic")]
    names = {line["request"]: set(line["sums"]) for line in lines}
    assert names == {"AskDiagnostic.propensity": {MASKED}, "AskDiagnostic.balance": {MASKED},
                     "AskDiagnostic.overlap": {MASKED, OWN + "intercept"},
                     "AskDiagnostic.outcome": {MASKED, OWN + "effect", OWN + "residuals"}}
    opened = {line["phase"] for line in read(folder / wire.sites[0]) if line["request"] == "OpenSum"}
    assert opened == {"moments", "design", "fit", "effects", "checks"}  # as the request whose sum it opens
    kept = next(line["values"] for line in lines if line["request"] == "AskDiagnostic.outcome")
    assert kept.keys() == {OWN + "effect", OWN + "residuals"}
