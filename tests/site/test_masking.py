"""A site's side of the secure sums: its keys, its masks, and which sums it opens."""

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedci.coordinator import coordinator, masked_sums
from fedci.coordinator.coordinator import run_study
from fedci.coordinator.talk import Talk
from fedci.errors import DisclosureError
from fedci.privacy import agreement, secure_sum
from fedci.protocol import rounds
from fedci.protocol.codec import encode
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import AskMaskKey, Evaluate, OpenSum, Refusal, TakeMaskKeys
from fedci.site import masking
from support.masked import local, one_round, plan, prepared, with_identities
from tests_support import Wire

# --- what a site refuses


def test_a_site_is_not_talked_out_of_its_masks():
    """The study lists three sites; a coordinator that says two, or agrees on no keys, gets no sums."""
    names = ("site-0", "site-1", "site-2")
    agreed = plan(sites=names)
    sites = local(agreed)
    two = {name: sites[name] for name in names[:2]}
    with pytest.raises(DisclosureError, match="no keys were agreed"):
        run_study(InProcessEngine(two), agreed, agreed.fit_options(), 0)


def test_identities_let_the_true_keys_through_and_give_the_same_bytes_after_a_restart():
    agreed, known = plan(), with_identities()
    uploads = []
    for _ in range(2):  # a site that starts again is a new object with the same identity
        talk = Talk(Wire(local(agreed, credentials=known)), "run")
        options = agreed.fit_options()
        coordinator.handshake(talk, agreed, options)
        sums = masked_sums.agree(talk)
        layout = coordinator.agree_units(talk, agreed, options)
        talk = talk.on(coordinator.terms_of(layout, agreed, sums))
        rules = coordinator.rules_of(layout, options, 0)
        talk.follow(rounds.evaluation(rules, rounds.begin(rules, layout.model.first_vector(0))))
        uploads.append([encode(reply) for request, reply in talk.engine.said if isinstance(request, Evaluate)])
    assert uploads[0] == uploads[1]


def test_a_cohort_of_two_or_of_one_site_twice_is_refused():
    agreed = plan()
    site = local(agreed)["site-0"]
    site.run = replace(site.run, options=agreed.fit_options(), name="run")
    own = site.answer(AskMaskKey("run", 1, "site-0")).notes["public"]
    other = agreement.public_key(X25519PrivateKey.generate())
    for publics in ({"site-0": own, "site-1": other}, {"site-0": own, "site-1": other, "site-2": other},
                    {"site-1": other, "site-2": own, "site-3": own[::-1]}):
        answer = site.answer(TakeMaskKeys("run", 2, "site-0", publics, {}))
        assert isinstance(answer, Refusal)
        assert answer.code in ("disclosure", "handshake")


# --- opening


def test_a_sum_opens_for_all_sites_right_after_it_or_not_at_all():
    talk, rules = prepared()
    one_round(talk, rules)
    opening = [request for request, _ in talk.engine.said if isinstance(request, OpenSum)]
    site = talk.engine.local[opening[0].site]
    assert not isinstance(site.answer(opening[0]), Refusal)
    some = {name: share for name, share in opening[0].shares.items() if name != "site-2"}
    assert "all 3 sites or is not opened" in site.answer(replace(opening[0], shares=some)).reason
    assert "right after it answered" in site.answer(replace(opening[0], round=opening[0].round + 2)).reason
    swapped = dict(zip(opening[0].shares, reversed(opening[0].shares.values()), strict=True))
    assert "was not asked the same" in site.answer(replace(opening[0], shares=swapped)).reason


def test_an_early_sum_opens_again_after_a_long_run():
    """A coordinator that goes on from its checkpoint walks the study's design anew, when sites have long forgotten."""
    talk, rules = prepared()
    for site in talk.engine.local.values():
        later = {number: "0" * 64 for number in range(1000, 1000 + 2 * masking.KEPT)}
        site.run = replace(site.run, sums=replace(site.run.sums, digests=later))
    objective, gradient = one_round(talk, rules)
    assert np.isfinite(objective)
    assert np.isfinite(gradient).all()
    assert all(len(site.run.sums.digests) <= masking.KEPT + 1 for site in talk.engine.local.values())


# --- sites that break or lie


def test_a_number_out_of_range_counts_as_a_failure(monkeypatch):
    """The optimiser then steps back, and nobody learns whose it was."""
    talk, rules = prepared()
    monkeypatch.setattr(secure_sum, "SPARE", 43)
    objective, gradient = one_round(talk, rules)
    assert objective == -np.inf
    assert not gradient.any()
