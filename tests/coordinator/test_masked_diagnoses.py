"""Diagnostics under secure sums: the coordinator gets the sums that can be sums, of a site what is told of sites."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedci import Source
from fedci.coordinator import diagnoses, masked_sums
from fedci.coordinator.coordinator import agree_units, handshake, terms_of
from fedci.coordinator.talk import PlainSums, Talk, Terms
from fedci.diagnostics import fit, propensity
from fedci.errors import DisclosureError, MessageError
from fedci.model.family import Ask
from fedci.privacy import secure_sum
from fedci.protocol.ask import sizes
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import AskDiagnostic, Refusal
from fedci.protocol.packing import unflatten
from fedci.protocol.requests import MASKED, OWN, REQUESTS, asked
from fedci.site import diagnosing
from fedci.site.door import Door
from fedci.site.ledger import Ledger, read
from fedci.site.site import Site
from tests_support import Wire, study

PLAIN, MASKS = {"name": "simulation"}, {"name": "simulation", "secure_sum": True}
STANDARD = {"name": "standard", "max_rounds": 200, "check_trajectory": False}


def people(rows: int, seed: int, steep: float = 0.5, spread: float = 10.0) -> pd.DataFrame:
    """Treatment by a logistic model of age."""
    rng = np.random.default_rng((seed, 8))
    age, bmi, sex = rng.normal(60, spread, rows), rng.normal(26, 4, rows), rng.integers(0, 2, rows)
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-steep * (age - 60) / 10))).astype(int)
    return pd.DataFrame({"age": age, "bmi": bmi, "sex": sex, "w": w, "y": age / 10 + w + rng.normal(size=rows)})


def designed(frames, policy, change=lambda request, reply: reply):
    """(the design's diagnostics, the wire, the sites)."""
    plan = study(diagnostics={}, policy=policy)
    sites = {name: Site(plan, Source(name, rows).read(plan)) for name, rows in frames.items()}
    wire = Wire(sites, change)
    talk = Talk(wire, "run")
    handshake(talk, plan, plan.fit_options())
    sums = masked_sums.agree(talk) if plan.policy.secures(len(sites)) else PlainSums()
    layout = agree_units(talk, plan, plan.fit_options())
    talk = talk.on(terms_of(layout, plan, sums))
    return diagnoses.design(talk, plan, layout.moments, layout.indicators), wire, sites


@pytest.fixture(scope="module")
def frames():
    return {f"s{k}": people(100 + 10 * k, k) for k in range(3)}


def replies_to(wire, kind):
    return [(request, reply) for request, reply in wire.said if asked(request) == f"AskDiagnostic.{kind}"]


def test_the_propensity_models_sums_reach_the_coordinator_masked_and_their_sum_is_exact(frames):
    """What the engine carries of a site is uniform integers; opened, their sum is the sum of the sites' own numbers in
    fixed point, to the bit, and the model is the plain one to the rounding of a Newton step."""
    found, wire, sites = designed(frames, MASKS)
    plain, clear, _ = designed(frames, PLAIN)
    said = replies_to(wire, "propensity")
    assert len(said) >= 3 * 3
    for _, reply in said:
        assert reply.sums.keys() == {MASKED}
        assert reply.notes.keys() == {"shares"}
        bits = np.unpackbits(reply.sums[MASKED].view(np.uint8))
        assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)  # five standard deviations: 6e-7 for each answer
    first = said[0][0]
    shapes = REQUESTS["AskDiagnostic.propensity"].summed_shapes(sizes(first.values))
    own = [reply.sums for request, reply in replies_to(clear, "propensity")
           if np.array_equal(request.values["coefficients"], first.values["coefficients"])]
    flat = [np.concatenate([np.ravel(one[name]) for name in sorted(shapes)]) for one in own]
    exact = unflatten(secure_sum.decode(sum(secure_sum.encode(one, 3, wide=True) for one in flat), wide=True), shapes)
    terms = Terms(model=sites["s0"].run.prepared.model, sums=masked_sums.SecureSums())
    talk = Talk(wire, "run", terms, number=1000)
    total = terms.sums.total(talk, Ask("AskDiagnostic.propensity", first.values))
    assert len(own) == 3
    for name in shapes:
        assert np.array_equal(total.sums[name], exact[name])
    np.testing.assert_allclose(found.model.coefficients, plain.model.coefficients, rtol=1e-9, atol=1e-12)
    assert found.willing == plain.willing == ("s0", "s1", "s2")
    assert found.overlap.equipoise == plain.overlap.equipoise


def test_no_site_is_told_apart_in_the_sums(frames):
    """Balance and overlap are judged site by site, and are all that is told of a site in the design."""
    _, wire, _ = designed(frames, MASKS)
    clear = {asked(request) for request, reply in wire.said
             if isinstance(request, AskDiagnostic) and MASKED not in reply.sums}
    assert clear == {"AskDiagnostic.balance", "AskDiagnostic.overlap"}


def test_a_site_that_may_not_tell_adds_nothing_and_is_named():
    """At one site ages differ so much that they decide about treatment: the model is the others' alone, and equals
    theirs in the clear."""
    frames = {name: people(rows, seed, 2.0) for seed, (name, rows) in enumerate({"a": 150, "b": 140, "c": 130}.items())}
    frames["sharp"] = people(60, 3, 2.0, spread=100.0)
    found, wire, sites = designed(frames, STANDARD)
    plain, _, _ = designed(frames, STANDARD | {"secure_sum": False})
    assert found.willing == plain.willing == ("a", "b", "c")
    assert any("site 'sharp' withholds its part of the diagnostic 'propensity'" in note for note in found.notes)
    told = [request.values["coefficients"] for request, reply in replies_to(wire, "propensity")
            if request.site == "sharp" and "withheld" not in reply.notes]
    after = [request.values["coefficients"] for request, reply in replies_to(wire, "propensity")
             if request.site == "sharp" and "withheld" in reply.notes]
    assert told
    assert not any(np.array_equal(one, other) for one in told for other in after)  # no sum with it and without it
    np.testing.assert_allclose(found.model.coefficients, plain.model.coefficients, rtol=1e-6, atol=1e-8)
    again = next(request for request, reply in replies_to(wire, "propensity") if request.site == "sharp")
    said = next(reply for request, reply in wire.said if request is again)
    assert encode(sites["sharp"].answer(again)) == encode(said)  # asked the first round again, it answers as it did


def test_an_open_refusal_keeps_the_sum_closed_and_the_study_goes_on(frames):
    def declines(request, reply):
        if asked(request) == "AskDiagnostic.propensity" and request.site == "s1":
            return Refusal(request.run, request.round, request.site, DisclosureError.code, "the operator said no")
        return reply

    found, _, _ = designed(frames, MASKS, declines)
    assert found.model is None
    assert found.overlap is None
    assert found.balance.columns[0].before is not None
    assert any("the operator said no" in note for note in found.notes)
    assert sum("the operator said no" in note for note in found.notes) == 1


SPOILED = [(row.name, name) for row in REQUESTS.values() if row.phase in ("moments", "design")
           for name in sorted(row.leaves(secure=False))]


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


def predictions(here, q, mean, root):
    """In the place of the fitted model, which would have to be compiled: what it says of each person without them."""
    rng = np.random.default_rng(here.table.rows)
    predicted = here.table.y + rng.normal(size=here.table.rows)
    return np.column_stack([predicted, predicted + 1]), predicted, np.ones(here.table.rows), rng.uniform(
        size=here.table.rows)


@pytest.fixture(scope="module")
def checked(frames, tmp_path_factory):
    """((what was told, the engine) masked and through doors, the same in the clear, the ledgers' folder)."""
    found, folder = [], tmp_path_factory.mktemp("doors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnosing, "_left_out", predictions)
        for policy in (MASKS, PLAIN):
            plan = study(diagnostics={}, policy=policy)
            sites = {name: Site(plan, Source(name, rows).read(plan)) for name, rows in frames.items()}
            engine = Doors(sites, folder) if policy is MASKS else Wire(sites)
            talk = Talk(engine, "run")
            handshake(talk, plan, plan.fit_options())
            sums = masked_sums.agree(talk) if policy is MASKS else PlainSums()
            layout = agree_units(talk, plan, plan.fit_options())
            talk, y = talk.on(terms_of(layout, plan, sums)), layout.scales
            before = diagnoses.design(talk, plan, layout.moments, layout.indicators)
            for site in sites.values():
                site.run = replace(site.run, posterior="given")
            values = {"centre": before.scales[0], "spread": before.scales[1],
                      "edges": fit.calibration_edges(y.y_mean, y.y_sd), "beta_mean": np.zeros((1, 0)),
                      "beta_root": np.zeros((1, 0, 0))}
            at = before.model.coefficients
            told = (diagnoses._masked_checks(talk, values | {"coefficients": at}, y) if policy is MASKS
                    else diagnoses._plain_checks(talk, values, at, before.willing))
            found.append((told, engine))
    return *found, folder


def test_the_checks_of_the_fit_are_masked_but_for_what_is_told_of_sites(checked):
    """The masked sums are in model units and not rounded, the plain ones in the outcome's to four digits."""
    (one, wire), (two, _), _ = checked
    for _, reply in replies_to(wire, "outcome"):
        assert reply.sums.keys() == {MASKED, OWN + "effect", OWN + "residuals"}
    for name in ("sites", "places", "places_hidden", "places_whole"):
        assert np.array_equal(getattr(one.everyone, name), getattr(two.everyone, name))
    np.testing.assert_allclose(one.everyone.line, two.everyone.line, rtol=1e-9)
    np.testing.assert_allclose(one.everyone.bins, two.everyone.bins, rtol=1e-3)
    np.testing.assert_allclose(one.share, two.share, rtol=1e-8)
    for site, own in two.sites.items():
        np.testing.assert_allclose(one.sites[site]["residuals"], own["residuals"], rtol=1e-9)
        np.testing.assert_allclose(one.sites[site]["effect"], own["effect"], rtol=1e-7)


def test_the_ledger_names_what_is_told_of_a_site_and_what_is_masked(checked):
    (_, wire), _, folder = checked
    lines = [line for line in read(folder / wire.sites[0]) if line["request"].startswith("AskDiagnostic")]
    names = {line["request"]: set(line["sums"]) for line in lines}
    assert names["AskDiagnostic.propensity"] == {MASKED}
    assert names["AskDiagnostic.outcome"] == {MASKED, OWN + "effect", OWN + "residuals"}
    assert {"mean", "variance"} <= names["AskDiagnostic.balance"]
    opened = {line["round"]: line["phase"] for line in read(folder / wire.sites[0]) if line["request"] == "OpenSum"}
    assert set(opened.values()) == {"design", "checks"}  # as the request whose sum it opens
    kept = next(line["values"] for line in lines if line["request"] == "AskDiagnostic.outcome")
    assert kept.keys() == {OWN + "effect", OWN + "residuals"}


def test_steps_are_enough_from_any_start():
    """The objective is concave: from where a site left, the maximum is the same."""
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(200, 2)), rng.integers(0, 2, 200).astype(float)
    design = propensity.with_intercept(x, 0, 1)
    one = propensity.fit(lambda at: propensity.sums(design, w, at), 2, 1)
    two = propensity.fit(lambda at: propensity.sums(design, w, at), 2, 1, start=np.array([20.0, -30.0, 10.0]))
    assert one.converged
    assert two.converged
    np.testing.assert_allclose(one.coefficients, two.coefficients, atol=1e-6)
