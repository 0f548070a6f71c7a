"""Noise at a site: gradients are clipped before it; a new kit draws no other noise on sums."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedci import FedCI, Source
from fedci.privacy.agreement import Credentials
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Hello, Reply, Step
from fedci.site.accountant import opened
from fedci.site.door import Door
from fedci.site.ledger import Ledger
from fedci.site.site import Site
from fedci.table.source import located
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


def means_told(folder, kit, rows, lie=None, **changes):
    """What a site tells of its columns' sums, in a kit with a new identity, before its one store. No rows: they come
    from the study's query. With a lie (1: the truth), what it then tells of its squares."""
    agreed = study(policy=NOISED, preset="few", covariates=("age", "bmi"), **changes)
    rows = located("sql:", "a", agreed) if rows is None else rows
    (folder / kit).mkdir()
    with Ledger(folder / kit) as book:
        known = Credentials(None, Ed25519PrivateKey.generate(), {})
        site = Site(agreed, Source("a", rows).read(agreed), known, opened(folder / "store", book.entries))
        door = Door(site, book, folder / kit)
        found = [decode(door.answer(encode(Hello("r", 1, "a", __version__, agreed.hash(), {"a": True})))),
                 decode(door.answer(encode(Step("r", 2, "a", "AskColumns"))))]
        assert isinstance(found[-1], Reply), found
        means = decode(door.answer(encode(Step("r", 3, "a", "AskMeans", dict(found[-1].sums)))))
        if lie is None:
            return means.sums
        told = {name: sums * lie if name == "total" else sums for name, sums in means.sums.items()}
        return decode(door.answer(encode(Step("r", 4, "a", "AskSpreads", told))))


def test_a_new_kit_draws_no_other_noise_on_the_same_sums(tmp_path):
    """Else kit after kit of one study would average it out: the accountant lets the same people be told of again."""
    rows = frame(400, 0)
    first, again = means_told(tmp_path, "one", rows), means_told(tmp_path, "two", rows)
    np.testing.assert_array_equal(first["total"], again["total"])
    assert abs(first["total"][0] - rows.age.sum()) > 1e-3
    (tmp_path / "store").rename(tmp_path / "first")  # the defence off: another store is another noise
    assert (means_told(tmp_path, "three", rows)["total"] != first["total"]).all()


def test_a_query_in_another_order_each_time_draws_no_other_noise(tmp_path, monkeypatch):
    """Its author could else average noise out by asking again, of the same people, whom the accountant lets pass."""
    pytest.importorskip("sqlalchemy", reason="the extra `sql` is not installed")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        frame(400, 0).round({"y": 1}).to_sql("cohort", connection, index=False)
    monkeypatch.setenv("FEDCI_DATABASE_URL", f"sqlite:///{tmp_path / 'a.db'}")
    anyhow = {"source": {"query": "SELECT age, bmi, w, y FROM cohort ORDER BY random()"}}
    first, again = means_told(tmp_path, "one", None, **anyhow), means_told(tmp_path, "two", None, **anyhow)
    for name in ("total", "y_total"):  # outcomes repeat: the noise on them goes by their order
        np.testing.assert_allclose(first[name], again[name], rtol=1e-12)


def test_noise_is_drawn_for_one_question_and_another_is_refused(tmp_path):
    """A site that tells other sums each time (or, without masks, a coordinator) would have it drawn anew each time."""
    rows = frame(400, 0)
    first, again = means_told(tmp_path, "one", rows, 1.0), means_told(tmp_path, "two", rows, 1.0)
    np.testing.assert_array_equal(first.sums["square"], again.sums["square"])
    refused = means_told(tmp_path, "three", rows, 1.0 + 1e-9)
    assert (refused.code, "in other common units" in refused.reason) == ("disclosure", True)
    (tmp_path / "store").rename(tmp_path / "first")  # the defence off
    assert isinstance(means_told(tmp_path, "four", rows, 1.0 + 1e-9), Reply)
