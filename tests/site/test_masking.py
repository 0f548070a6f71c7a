"""A site's side of the secure sums: its keys, its masks, and which sums it opens."""

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedci.coordinator.coordinator import run_study
from fedci.errors import HandshakeError
from fedci.privacy import agreement, secure_sum
from fedci.protocol.codec import encode
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import AskMaskKey, OpenSum, Refusal, Step, TakeMaskKeys
from fedci.site import masking
from support.asked import greeting
from support.masked import local, one_round, plan, prepared, with_identities

# --- what a site refuses


def test_a_site_is_not_talked_out_of_its_masks():
    """The study lists three sites; a coordinator that says two gets no sums, and not in the clear."""
    names = ("site-0", "site-1", "site-2")
    agreed = plan(sites=names)
    sites = local(agreed)
    two = {name: sites[name] for name in names[:2]}
    with pytest.raises(HandshakeError, match="the study is of 3 at least"):
        run_study(InProcessEngine(two), agreed)


def test_identities_let_the_true_keys_through_and_give_the_same_bytes_after_a_restart():
    known = with_identities()
    uploads = []
    for _ in range(2):  # a site that starts again is a new object with the same identity
        talk, contract, opened = prepared(credentials=known)
        one_round(talk, contract, opened)
        uploads.append([encode(reply) for request, reply in talk.engine.said if isinstance(request, Step)])
    assert len(uploads[0]) == 3 * len(("AskColumns", "AskMeans", "AskSpreads", "AskDescription", "Prepare", "Begin",
                                       "Evaluate"))
    assert uploads[0] == uploads[1]


def test_a_cohort_of_two_or_of_one_site_twice_is_refused():
    agreed = plan()
    site = local(agreed)["site-0"]
    site.answer(greeting(agreed, "site-0", sites=("site-0", "site-1", "site-2")))
    own = site.answer(AskMaskKey("run", 2, "site-0")).notes["public"]
    other = agreement.public_key(X25519PrivateKey.generate())
    for publics in ({"site-0": own, "site-1": other}, {"site-0": own, "site-1": other, "site-2": other},
                    {"site-1": other, "site-2": own, "site-3": own[::-1]}):
        answer = site.answer(TakeMaskKeys("run", 3, "site-0", publics, {}))
        assert isinstance(answer, Refusal)
        assert answer.code in ("disclosure", "handshake")


# --- opening


def test_a_sum_opens_for_all_sites_right_after_it_or_not_at_all():
    talk, contract, opened = prepared()
    one_round(talk, contract, opened)
    opening = [request for request, _ in talk.engine.said if isinstance(request, OpenSum)][-1]
    site = talk.engine.local[opening.site]
    assert not isinstance(site.answer(opening), Refusal)
    some = {name: share for name, share in opening.shares.items() if name != "site-2"}
    assert "all 3 sites or is not opened" in site.answer(replace(opening, shares=some)).reason
    assert "right after it answered" in site.answer(replace(opening, round=opening.round + 2)).reason
    swapped = dict(zip(opening.shares, reversed(opening.shares.values()), strict=True))
    assert "was not asked the same" in site.answer(replace(opening, shares=swapped)).reason


def test_an_early_sum_opens_again_after_a_long_run():
    """A coordinator that goes on from its checkpoint walks the study's design anew, when sites have long forgotten."""
    talk, contract, opened = prepared()
    for site in talk.engine.local.values():
        later = {number: "0" * 64 for number in range(1000, 1000 + 2 * masking.KEPT)}
        site.run = replace(site.run, sums=replace(site.run.sums, digests=later))
    objective, gradient, _ = one_round(talk, contract, opened)
    assert np.isfinite(objective)
    assert np.isfinite(gradient).all()
    assert all(len(site.run.sums.digests) <= masking.KEPT + 1 for site in talk.engine.local.values())


# --- sites that break or lie


def test_a_number_out_of_range_counts_as_a_failure(monkeypatch):
    """The optimiser then steps back, and nobody learns whose it was."""
    talk, contract, opened = prepared()
    monkeypatch.setattr(secure_sum, "spare", lambda form: 43)
    objective, gradient, _ = one_round(talk, contract, opened)
    assert objective == -np.inf
    assert not gradient.any()
