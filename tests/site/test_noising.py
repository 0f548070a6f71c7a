"""Noise at a site: gradients are clipped before it; a new kit draws no other noise on sums."""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedci import FedCI, Source
from fedci.privacy.agreement import Credentials
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Hello, Reply, Step
from fedci.site.accountant import opened
from fedci.site.door import Door
from fedci.site.ledger import Ledger
from fedci.site.site import Site
from fedci.version import __version__
from support.masked import SECURE, SIZES
from tests_support import STANDARD_OTHERWISE, frame, hospitals, study


def test_noised_gradients_reach_the_coordinator_clipped():
    blind = {"optimiser": {"name": "adam", "rounds": 3, "tolerance": 0.0}, "prediction": {"draws": 16}}
    noisy = SECURE | {"epsilon": 8.0, "delta": 1e-5, "noised": ["gradients"], "gradient_clip": 1.0}
    agreed = study(policy=noisy, options=blind)
    found = FedCI(agreed).fit(hospitals(*SIZES))
    bare = FedCI(study(policy=SECURE, options=blind)).fit(hospitals(*SIZES))
    assert [r.objective for r in found.outcome.fit.rounds] != [r.objective for r in bare.outcome.fit.rounds]
    assert "gradients: protects all that one site answers; noise" in found.summary()
    assert ", 3 times; signal to noise" in found.summary()


NOISED = {**STANDARD_OTHERWISE, "secure_sum": "auto", "sum_noise": 0.05}
"""So little that a hundred people are enough."""


def means_told(folder, kit, rows, **changes):
    """What a site tells of its columns' sums, in a kit with a new identity, before its one store."""
    agreed = study(policy=NOISED, preset="few", covariates=("age", "bmi"), **changes)
    (folder / kit).mkdir()
    with Ledger(folder / kit) as book:
        known = Credentials(None, Ed25519PrivateKey.generate(), {})
        site = Site(agreed, Source("a", rows).read(agreed), known, opened(folder / "store", book.entries))
        door = Door(site, book, folder / kit)
        found = [decode(door.answer(encode(Hello("r", 1, "a", __version__, agreed.hash(), {"a": True})))),
                 decode(door.answer(encode(Step("r", 2, "a", "AskColumns"))))]
        assert isinstance(found[-1], Reply), found
        return decode(door.answer(encode(Step("r", 3, "a", "AskMeans", dict(found[-1].sums))))).sums


def test_a_new_kit_draws_no_other_noise_on_the_same_sums(tmp_path):
    """Else kit after kit of one study would average it out: the accountant lets the same people be told of again."""
    rows = frame(400, 0)
    first, again = means_told(tmp_path, "one", rows), means_told(tmp_path, "two", rows)
    np.testing.assert_array_equal(first["total"], again["total"])
    assert abs(first["total"][0] - rows.age.sum()) > 1e-3
    (tmp_path / "store").rename(tmp_path / "first")  # the defence off: another store is another noise
    assert (means_told(tmp_path, "three", rows)["total"] != first["total"]).all()
