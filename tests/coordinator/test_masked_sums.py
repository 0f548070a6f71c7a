"""A study under secure sums: equal to the plain one, and the coordinator sees nothing but the sums."""

import secrets
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedci import FedCI, Result, Source
from fedci.coordinator import coordinator, masked_sums
from fedci.coordinator.checkpoint import Checkpoint, Mark
from fedci.coordinator.coordinator import run_study
from fedci.coordinator.talk import PlainSums, Talk
from fedci.errors import AwayError, FederationError, FloorError, HandshakeError, MessageError, UsageError
from fedci.model.shared import exchanges
from fedci.privacy import agreement, secure_sum
from fedci.protocol.codec import decode, encode
from fedci.protocol.course import Contract
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import OpenSum, TakeMaskKeys
from fedci.protocol.requests import MASKED, OWN, asked, row_of
from fedci.site import summing
from fedci.site.door import Door
from fedci.site.ledger import Ledger, read
from support.masked import SECURE, SIZES, local, one_round, plan, prepared, with_identities
from tests_support import Wire, hospitals

PLAIN = {"name": "simulation"}


# --- the same study


def test_masked_is_plain_to_rounding():
    """Masked numbers are rounded to 2⁻⁴¹ each, 1e-12 in the sum of three; six rounds of the optimiser multiply that by
    less than 1e4 (the curvature's condition)."""
    one = FedCI(plan()).fit(hospitals(*SIZES))
    two = FedCI(plan(policy=PLAIN)).fit(hospitals(*SIZES))
    assert one.verdict == two.verdict
    np.testing.assert_allclose([r.objective for r in one.outcome.fit.rounds],
                               [r.objective for r in two.outcome.fit.rounds], rtol=1e-10)
    for of in ("cate", "ite"):
        for site in (None, *two.sites):
            assert one.ate(site, of).mean == pytest.approx(two.ate(site, of).mean, rel=1e-8)
            assert one.ate(site, of).sd == pytest.approx(two.ate(site, of).sd, rel=1e-8)
    assert one.ate().interval() == pytest.approx(two.ate().interval(), rel=1e-7)
    assert list(one.table()["people"]) == list(two.table()["people"])


def test_a_masked_round_of_the_model_shared_is_the_plain_one():
    """Two exchanges, statistics from 1e-3 to 1e4: the same objective and gradient but for the rounding of a masked
    number, 2⁻³¹ of n/σ² (1e3 here) for each of some thousand."""
    found = [one_round(*prepared(policy, preset="default")) for policy in (SECURE, PLAIN)]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-7)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-4, atol=1e-5 * np.abs(found[1][1]).max())


@pytest.mark.parametrize("away, fails", [(2.0, False), (5.0, True), (400.0, True)])
def test_a_step_too_long_fails_alike_with_masks_and_without_and_stops_nothing(away, fails, monkeypatch):
    """With directions e^away times as steep hinges leave the range of the secure sum; in the end they are not finite.
    The optimiser is told −∞, in the clear as well, and steps back."""
    def far(model, beta, gram, people, beginning=exchanges.beginning):
        means, widths = np.split(beginning(model, beta, gram, people), 2)
        theta = model.unravel(means)
        return np.concatenate([model.ravel(theta | {"direction_scale": theta["direction_scale"] + away}), widths])

    monkeypatch.setattr(exchanges, "beginning", far)
    found = [one_round(*prepared(policy, preset="default")) for policy in (SECURE, PLAIN)]
    assert [not np.isfinite(objective) for objective, *_ in found] == [fails, fails]
    assert [gradient.any() for _, gradient, _ in found] == [not fails, not fails]
    if not fails:
        assert found[0][0] == pytest.approx(found[1][0], rel=1e-6)  # statistics are larger than at the start


def test_the_unit_of_the_outcome_does_not_matter_to_masked_effects():
    """In units of 1e-8 the sums of effects would be beyond the range of a secure sum, were they not in model units. The
    moments agree to their digits (all 17 in a simulation), the fit as in `test_masked_is_plain_to_rounding`."""
    cents = [Source(source.name, source.data.assign(y=1e8 * source.data.y)) for source in hospitals(*SIZES)]
    one, two = FedCI(plan()).fit(hospitals(*SIZES)), FedCI(plan()).fit(cents)
    assert two.outcome.effects.total["cate_var"].max() > 2.0**42
    assert two.ate().mean == pytest.approx(1e8 * one.ate().mean, rel=1e-6)
    assert two.ate().sd == pytest.approx(1e8 * one.ate().sd, rel=1e-6)
    assert two.ate("site-1").mean == pytest.approx(1e8 * one.ate("site-1").mean, rel=1e-6)


@pytest.fixture(scope="module")
def through_doors(tmp_path_factory):
    """(outcome, all that was said, folder of the ledgers) with each site behind its door, under a study without the
    sites' own effects."""
    folder = tmp_path_factory.mktemp("doors")
    agreed = plan(policy=SECURE | {"site_effects": False})
    sites = local(agreed)
    doors = {name: Door(site, Ledger(folder / name), folder / name) for name, site in sites.items()}

    class Doors(Wire):
        def _ask(self, name, request):
            reply = decode(doors[name].answer(encode(request)))
            self.said.append((request, reply))
            return reply

    engine = Doors(sites)
    outcome = run_study(engine, agreed)
    for door in doors.values():
        door.ledger.close()
    return outcome, engine.said, folder, agreed


def test_the_sum_does_not_depend_on_the_masks(through_doors):
    """Other secrets, other masks, and every bit of the result the same."""
    outcome, agreed = through_doors[0], through_doors[3]
    again = run_study(InProcessEngine(local(agreed)), agreed)
    assert again.fit.theta.tobytes() == outcome.fit.theta.tobytes()
    assert all(again.effects.total[name].tobytes() == outcome.effects.total[name].tobytes()
               for name in outcome.effects.total)


def test_the_coordinator_sees_nothing_but_masked_sums(through_doors):
    outcome, said, _, _ = through_doors
    """Beside them, how many people each site has, and how many are treated."""
    summed = [(request, reply) for request, reply in said if row_of(request).summed]
    assert len(summed) == len(SIZES) * (len(outcome.fit.rounds) + 5)  # four of the opening, and the effects
    for request, reply in summed:
        assert reply.sums.keys() == {MASKED} | ({OWN + "people"} if asked(request) == "AskMeans" else set())
        assert reply.notes.keys() == {"shares"}
    assert outcome.effects.sums == {}


def test_what_a_site_keeps_of_its_own(through_doors, tmp_path):
    """Without site_effects the result has no line of a site, before and after it was saved, and says why."""
    result = Result(study=through_doors[3], outcome=through_doors[0], people={})
    result.save(tmp_path / "out")
    for found in (result, Result.load(tmp_path / "out")):
        assert set(found.table()["site"]) == {"all"}
        with pytest.raises(UsageError, match="site_effects = false"):
            found.ate("site-1")
    assert Result.load(tmp_path / "out").ate().mean == result.ate().mean


def test_the_ledger_has_every_masked_answer_and_no_masked_number(through_doors):
    _, said, folder, _ = through_doors
    for name in ("site-0", "site-1", "site-2"):
        entries = read(folder / name)
        wire = [(request, encode(reply)) for request, reply in said if request.site == name]
        assert [entry["bytes"] for entry in entries] == [len(data) for _, data in wire]
        assert {entry["phase"] for entry in entries} == {"handshake", "keys", "moments", "fit", "effects"}
        assert not any("masked" in entry.get("values", {}) for entry in entries)
        assert not any({"shares", "opened", "wrapped"} & set(entry.get("notes", {})) for entry in entries)


def test_two_sites_are_summed_in_the_clear_unless_masks_are_demanded():
    talk, _, _ = prepared(sizes=(40, 37))
    assert isinstance(talk.terms.sums, PlainSums)
    with pytest.raises(FloorError, match="at least 3 sites, got 2"):
        FedCI(plan(policy=SECURE | {"secure_sum": True})).fit(hospitals(40, 37))


# --- what a site refuses


class Middle(InProcessEngine):
    """A coordinator that puts its own keys between the sites."""

    def exchange(self, requests):
        return super().exchange({name: replace(request, publics=self._own_keys(name, request.publics))
                                 if isinstance(request, TakeMaskKeys) else request
                                 for name, request in requests.items()})

    def _own_keys(self, name, publics):
        return {site: public if site == name else agreement.public_key(X25519PrivateKey.generate())
                for site, public in publics.items()}


def test_a_coordinator_in_the_middle_is_refused():
    agreed = plan()
    talk = Talk(Middle(local(agreed, credentials=with_identities())), "run")
    coordinator.handshake(talk, Contract(agreed, talk.sites))
    with pytest.raises(HandshakeError, match="not signed by it"):
        masked_sums.agree(talk)


# --- opening


def test_a_site_that_answered_and_went_away_is_not_missed(monkeypatch):
    """Two of three open a sum here; without the third it is the same sum, of all three."""
    monkeypatch.setattr(secure_sum, "threshold", lambda sites: 2)

    class Leaving(Wire):
        gone = None

        def exchange(self, requests):
            if self.gone and any(isinstance(r, OpenSum) for r in requests.values()) and self.gone in requests:
                raise AwayError("gone")
            return super().exchange(requests)

    whole = one_round(*prepared(engine=Leaving))
    again, contract, opened = prepared(engine=Leaving)
    again.engine.gone = "site-1"
    found = one_round(again, contract, opened)
    assert found[0] == whole[0]
    assert found[1].tobytes() == whole[1].tobytes()


def test_too_few_to_open_is_a_pause():
    class Gone(Wire):
        def exchange(self, requests):
            if any(isinstance(r, OpenSum) for r in requests.values()) and set(requests) & {"site-1"}:
                raise AwayError("gone")
            return super().exchange(requests)

    with pytest.raises(AwayError, match="2 of 3 sites are there to open a sum, 3 are needed"):
        prepared(engine=Gone)


# --- sites that break or lie


def test_garbage_under_a_mask_shows_as_an_absurd_sum():
    def change(request, reply):
        if asked(request) == "Evaluate" and request.site == "site-1":
            noise = np.frombuffer(secrets.token_bytes(reply.sums["masked"].nbytes), np.int64)
            return replace(reply, sums={"masked": noise})
        return reply

    with pytest.raises(FederationError, match="a site sent garbage under its mask, and which one cannot be told"):
        one_round(*prepared(change=change))


@pytest.mark.parametrize("masked", [np.zeros(3, np.int64), np.zeros(3)])
def test_a_masked_answer_of_the_wrong_form_is_named(masked):
    study = prepared(change=lambda request, reply: replace(reply, sums={"masked": masked})
                     if asked(request) == "Evaluate" and request.site == "site-1" else reply)
    with pytest.raises(MessageError, match="site 'site-1' answered with masked numbers of shape"):
        one_round(*study)


def test_a_site_that_answers_in_the_clear_is_named():
    study = prepared(change=lambda request, reply: replace(reply, sums={"gradient": np.zeros(3)})
                     if asked(request) == "Evaluate" and request.site == "site-2" else reply)
    with pytest.raises(MessageError, match="site 'site-2' answered"):
        one_round(*study)


@pytest.mark.parametrize("policy", [PLAIN, SECURE], ids=["plain", "masked"])
def test_a_flipped_sign_is_not_found_and_cannot_lead_the_fit_below_its_start(policy, monkeypatch):
    """A gradient with its sign turned is as finite and as large as a true one: no check can tell (docs/security.md).
    The objective is true, so the ascent keeps its best Θ: the fit ends, no better than the honest one and no worse
    than its start."""
    def fitted():
        talk, contract, opened = prepared(policy)
        return coordinator.fit_theta(talk, contract, opened, None, Checkpoint(mark=Mark("", ()), run="run"))[1]

    true, honest = summing._round, fitted()

    def flipped(party, run, ready, ask):
        run, part = true(party, run, ready, ask)
        sign = -1.0 if party.name == "site-1" else 1.0
        return run, part._replace(sums={name: numbers if name in ("objective", "failed") else sign * numbers
                                        for name, numbers in part.sums.items()})

    monkeypatch.setattr(summing, "_round", flipped)
    found = fitted()
    assert np.isfinite(found.theta).all()
    assert found.rounds[0].objective == honest.rounds[0].objective
    assert found.rounds[0].objective <= found.objective < honest.objective


def test_effects_of_a_site_are_averages_over_the_draws():
    talk, contract, opened = prepared()
    talk, fit = coordinator.fit_theta(talk, contract, opened, None, coordinator.load(None, None, "run"))
    found = coordinator.gather_effects(talk, contract, opened, None, fit)
    assert found.sums["site-1"]["cate_mean"].shape == (1, 3)
    replies = [reply for request, reply in talk.engine.said if asked(request) == "AskEffects"]
    assert all(part.size < 50 for reply in replies for name, part in reply.sums.items() if name != "masked")


def gathered(study):
    talk, contract, opened = study
    talk, fit = coordinator.fit_theta(talk, contract, opened, None, coordinator.load(None, None, "run"))
    return coordinator.gather_effects(talk, contract, opened, None, fit)


def test_a_site_whose_effects_are_of_nobody_is_named_beside_a_masked_sum():
    def change(request, reply):
        name = f"{OWN}people"
        nobody = {name: 0 * reply.sums[name]} if name in getattr(reply, "sums", {}) else {}
        lies = asked(request) == "AskEffects" and request.site == "site-1"
        return replace(reply, sums=reply.sums | nobody) if lies else reply

    with pytest.raises(MessageError, match="site 'site-1' answered with effects of 0 people, and told of "):
        gathered(prepared(change=change))


def test_effects_of_other_people_under_a_mask_are_refused_without_a_name(monkeypatch):
    true = summing.population_sizes
    monkeypatch.setattr(summing, "population_sizes", lambda by_arm: true(by_arm) // 2)
    with pytest.raises(FederationError, match="which one cannot be told. Leave sites out one by one"):
        gathered(prepared(SECURE | {"site_effects": False}))
