"""Noise at a site: gradients are clipped before it; a new kit draws no other noise on sums; on all that leaves there is
as much as was promised, and nobody counts for more than the clips let."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import chi2

from fedci import FedCI, Source
from fedci.model.shared import sum_noise
from fedci.model.shared.dictionary import Point
from fedci.privacy import dp
from fedci.privacy.agreement import Credentials
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Hello, Reply, Step
from fedci.protocol.packing import POWERS
from fedci.site import summing
from fedci.site.accountant import opened
from fedci.site.door import Door
from fedci.site.ledger import Ledger
from fedci.site.site import Site
from fedci.table.source import located
from fedci.version import __version__
from support.asked import asked_alone, greeting
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


BOUNDED = {"age": {"range": [20, 100]}, "bmi": {"range": [5, 60]}, "sex": {"type": "binary"}}


@pytest.mark.parametrize("kind, step, name", [("moments", "AskMeans", "y_total"), ("gradients", "Evaluate", "gradient"),
                                              ("effects", "AskEffects", "cate_mean")])
def test_what_differential_privacy_noises_leaves_a_site_with_noise(kind, step, name, monkeypatch):
    """By the store's secret: the same before one store, other before each other one, and never the bare number. (How
    much: privacy/test_dp.py.)"""
    blind = {"optimiser": {"name": "adam", "rounds": 1, "tolerance": 0.0}, "prediction": {"draws": 16}}
    noisy = {"name": "simulation", "epsilon": 8.0, "delta": 1e-5, "noised": [kind], "gradient_clip": 1.0,
             "outcome_range": [0.0, 20.0], "effect_bound": 5.0}
    agreed = study(policy=noisy, options=blind, covariates=BOUNDED)
    site = Site(agreed, Source("a", frame(40, 0)).read(agreed))
    site.answer(greeting(agreed))
    before = site.run
    for request, reply in asked_alone(site):  # noqa: B007  # the last is wanted
        if request.name == step:
            break
        before = site.run

    def told(secret):
        return summing.step(replace(site.party, noise_secret=secret), before, request)[1].sums[name]

    np.testing.assert_array_equal(told(site.party.noise_secret), reply.sums[name])
    others = np.array([np.ravel(told(bytes([k]) * 32)) for k in range(3)])
    monkeypatch.setattr(dp, "gaussian", lambda seed, count: np.zeros(count))
    each = np.array([*others, np.ravel(told(bytes(32)))])
    assert all(len(np.unique(column)) == len(each) for column in each.T)


# --- all that leaves under policy.sum_noise, of one site behind its door

WIDE = tuple(f"x{k}" for k in range(8))
"""Enough columns for some two hundred products."""
STORES = 12
"""Noise is drawn once for ever, by the store's secret: so many sites' numbers are looked at."""
FALSE_ALARM = 1e-6
"""How often the chi-square interval would miss sites that keep the promise; without noise it is missed by far."""
FAR = 15.0
"""Sds of a column at which one person stands, in a covariate and in the outcome."""


def people_with_one_far_off(rows=400) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    x = rng.standard_normal((rows, len(WIDE)))
    w = (rng.random(rows) < 0.5).astype(int)
    y = x @ np.full(len(WIDE), 0.2) + w + 0.5 * rng.standard_normal(rows)
    x[0, 0], w[0], y[0] = FAR, 1, FAR
    return pd.DataFrame(dict(zip(WIDE, x.T, strict=True)) | {"w": w, "y": y})


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Step → (the site's run before it, the request, the sums that left through the door, the run after)."""
    folder, agreed = tmp_path_factory.mktemp("noised"), study(policy=NOISED, preset="few", covariates=WIDE)
    with Ledger(folder) as book:
        site = Site(agreed, Source("a", people_with_one_far_off()).read(agreed),
                    Credentials(None, Ed25519PrivateKey.generate(), {}), opened(folder / "store", book.entries))
        door, runs, found = Door(site, book, folder), [], {}

        def answer(request):
            runs.append(site.run)
            return decode(door.answer(encode(request)))

        answer(greeting(agreed))
        for request, reply in asked_alone(SimpleNamespace(party=site.party, name="a", answer=answer)):
            assert isinstance(reply, Reply), reply
            found[request.name] = (runs[-1], request, reply.sums, site.run)
        return site.party, found


def of_many_stores(told, name):
    """(what was asked, the run, sums) of the door's own answer, and of the same site before other stores."""
    party, found = told
    before, request, sums, after = found[name]
    yield after, sums
    for k in range(STORES - 1):
        other = replace(party, noise_secret=bytes([k + 1]) * 32, accountant=None)
        run, reply = summing.step(other, before, request)
        yield run, reply.sums


def units_of_one(told):
    """x and y in the common units, as they are, and cut at the clips."""
    run = told[1]["AskSharedEffects"][3]
    x, y = run.prepared.units.filled(run.table.x), run.prepared.units.outcome(run.table.y)
    return (x, y), (np.clip(x, -sum_noise.CLIP_X, sum_noise.CLIP_X), np.clip(y, -sum_noise.CLIP_Y, sum_noise.CLIP_Y))


def without_noise(told, name, run):
    """What the step would tell of these people: column sums and squares from the table, the rest from rows that are
    clipped here."""
    t, ask = run.table, run.course.asked[1]
    if name == "AskMeans":
        return np.concatenate([t.x.sum(0), [t.y[t.w == arm].sum() for arm in (0, 1)]])
    if name == "AskSpreads":
        both = np.column_stack([t.x, t.y])
        cut = 4.0 * both.std(0)
        return np.sum(np.clip(both - np.append(ask.arrays["x_mean"], ask.arrays["y_mean"]), -cut, cut) ** 2, 0)
    ready, (x, y) = run.prepared, units_of_one(told)[1]
    if name == "AskProducts":
        rows = ready.model.rows(x, t.w, y, np.asarray(ready.rows.u), 0)
        return ready.model.answer(name, ask.arrays, rows, None).sums
    return noised_effects(run, x, y, np.zeros)


def noised_effects(run, x, y, draw):
    ready, t = run.prepared, run.table
    found = ready.model.noised_effects(run.course.asked[1].arrays, x, t.w, y, draw)
    return found["cate_mean"] * ready.units.y_sd ** POWERS["cate_mean"]


def drawn_for(told, name, run, sums):
    """The standard normals behind what left, if noise is as promised."""
    exact, s, t = without_noise(told, name, run), run.study.policy.sum_noise, run.table
    sd = np.append(t.x.std(0), t.y.std())
    if name == "AskMeans":
        noise = np.concatenate([sums["total"], sums["y_total"]]) - exact
        return noise / (s / np.sqrt(sum_noise.SHARES["means"]) * np.append(sd, sd[-1]))
    if name == "AskSpreads":
        return ((np.append(sums["square"], sums["y_square"]) - exact)
                / (s / np.sqrt(sum_noise.SHARES["squares"]) * 2 * 4.0 * sd**2))
    if name == "AskProducts":
        return products_drawn(run, sums, exact)
    x, y = units_of_one(told)[1]
    each = [noised_effects(run, x, y, lambda count, k=k: np.eye(count)[k]).ravel() - exact.ravel()
            for k in range(2 * (x.shape[1] + 1))]
    return np.linalg.lstsq(np.array(each).T, (sums["cate_mean"] - exact).ravel(), rcond=None)[0]


def products_drawn(run, sums, exact):
    """Of (F, y)ᵀ(F, y), whose noise has sd τ off the diagonal and √2 τ on it, in the columns' own scales."""
    model, point = run.prepared.model, Point(run.course.asked[1].arrays["point"])
    c = np.append(sum_noise.scale_of(model, point), 1.0)
    width = len(c) - 1
    off = np.zeros((width + 1, width + 1))
    off[:width, :width][np.triu_indices(width)] = sums["gram"] - exact["gram"]
    off[:width, width], off[width, width] = sums["cross"] - exact["cross"], sums["square"] - exact["square"]
    off *= np.outer(c, c) * sum_noise._noise(model, point) / sum_noise.noise_of(model)
    off[np.diag_indices(width + 1)] /= np.sqrt(2.0)
    return off[np.triu_indices(width + 1)]


STEPS = {"AskMeans": 10, "AskSpreads": 9, "AskProducts": 190, "AskSharedEffects": 18}
"""Each step that tells of people's values, and how many numbers have noise of their own."""


@pytest.mark.parametrize("name", STEPS)
def test_what_leaves_has_the_noise_that_was_promised(told, name):
    """Whoever takes it away, draws less or adds it to some only is outside the interval; the sums without it are worked
    out from the table and from rows clipped here, so a value beyond the clips is outside too."""
    z = np.concatenate([drawn_for(told, name, run, sums) for run, sums in of_many_stores(told, name)])
    assert z.size == STORES * STEPS[name]
    low, high = chi2.interval(1 - FALSE_ALARM, z.size)
    assert low < np.sum(z**2) < high
    assert np.unique(z).size == z.size


def test_every_step_that_tells_of_values_is_among_them(told):
    assert set(told[1]) - set(STEPS) == {"AskColumns"}


def test_one_far_off_counts_as_one_at_the_clips(told, monkeypatch):
    """To rounding, with the noise off: the sums are those of rows in which the far value is the clip's."""
    (x, y), (x_cut, y_cut) = units_of_one(told)
    assert x[0, 0] > 2 * x_cut[0, 0] == 2 * sum_noise.CLIP_X
    assert y[0] > 2 * y_cut[0] == 2 * sum_noise.CLIP_Y
    monkeypatch.setattr(dp, "gaussian", lambda seed, count: np.zeros(count))
    [products, *_], [effects, *_] = ([*of_many_stores(told, name)][1:] for name in ("AskProducts", "AskSharedEffects"))
    for part, sums in without_noise(told, "AskProducts", products[0]).items():
        np.testing.assert_allclose(products[1][part], sums, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(effects[1]["cate_mean"], without_noise(told, "AskSharedEffects", effects[0]),
                               rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("treated, refused", [(49, True), (50, False)])
def test_a_site_with_an_arm_smaller_than_noise_is_measured_for_tells_of_nobody(treated, refused):
    """The one check of it: nothing was told when it refuses."""
    agreed, rows = study(policy=NOISED, preset="few", covariates=WIDE), people_with_one_far_off()
    rows["w"] = (np.arange(len(rows)) < treated).astype(int)
    site = Site(agreed, Source("a", rows).read(agreed))
    site.answer(greeting(agreed))
    reply = site.answer(Step("run", 2, "a", "AskColumns"))
    assert isinstance(reply, Reply) is not refused
    if refused:
        assert (reply.code, "with 50 people in each arm; here are 49 and 351" in reply.reason) == ("disclosure", True)
