"""Noise on outcomes: once for each person, nested over δ, unbiased, known to the model; the store keeps its scale."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats

from fedci import Source
from fedci.errors import DisclosureError, StudyError
from fedci.privacy.agreement import Credentials
from fedci.site import outcome_noise, store
from fedci.site.accountant import Accountant
from fedci.site.outcome_noise import flipped_share, noised
from fedci.site.site import Site
from fedci.study.policy import policy
from tests_support import frame, study

KEY = bytes(range(32))
Y = np.random.default_rng(0).normal(3.0, 2.0, 4000)
BINARY = np.repeat([0.0, 1.0], [3000, 1000])


def own_sd(column, sd):
    return sd


def test_noise_is_gaussian_of_the_said_size_and_the_same_every_time():
    noisy, added = noised(Y, "y", 0.25, KEY, own_sd)
    e = (noisy - Y) / np.sqrt(added)
    assert np.sqrt(added) == pytest.approx(0.25 * 2.0, rel=0.05)  # the scale has two digits
    assert stats.kstest(e, "norm").pvalue > 1e-3  # fails once in a thousand keys
    assert abs(np.corrcoef(e, Y)[0, 1]) < 3.3 / np.sqrt(len(Y))  # likewise
    np.testing.assert_array_equal(noised(Y, "y", 0.25, KEY, own_sd)[0], noisy)


def test_a_person_keeps_the_noise_whoever_else_is_there():
    """Others leave, others come after: each value's noise is its own."""
    whole, part = noised(Y, "y", 0.1, KEY, lambda *_: 2.0)[0], noised(Y[1000:], "y", 0.1, KEY, lambda *_: 2.0)[0]
    np.testing.assert_array_equal(whole[1000:], part)


@pytest.mark.parametrize("y", [Y, BINARY], ids=["numbers", "two values"])
def test_other_keys_and_other_columns_have_other_noise(y):
    noisy = noised(y, "y", 0.5, KEY, own_sd)[0]
    for other in (noised(y, "z", 0.5, KEY, own_sd)[0], noised(y, "y", 0.5, bytes(32), own_sd)[0]):
        assert abs(np.corrcoef(noisy - y, other - y)[0, 1]) < 4 / np.sqrt(len(y))


def test_more_noise_is_noise_on_noise():
    """e(0.3) − e(0.1) is independent of e(0.1): who sees both knows no more than who sees the smaller alone."""
    less, more = (noised(Y, "y", delta, KEY, own_sd)[0] for delta in (0.1, 0.3))
    assert abs(np.corrcoef(more - less, less - Y)[0, 1]) < 3.3 / np.sqrt(len(Y))
    assert np.std(more - less) == pytest.approx(2.0 * np.sqrt(0.3**2 - 0.1**2), rel=0.08)


def test_two_values_are_flipped_as_often_as_is_said():
    """Whoever solves for everybody's is wrong about that share, and cannot say about whom."""
    y = np.repeat([0.0, 1.0], 20_000)
    flipped = (noised(y, "died", 0.1, KEY, own_sd)[0] > 0.5) != (y > 0.5)
    p = flipped_share(0.5, 0.1)
    assert p == pytest.approx(0.021, abs=5e-4)
    assert flipped.mean() == pytest.approx(p, abs=4 * np.sqrt(p / len(y)))
    assert flipped_share(0.1, 0.1) == pytest.approx(0.008, abs=5e-4)


def test_two_values_are_flipped_without_bias():
    noisy, added = noised(BINARY, "died", 0.15, KEY, own_sd)
    assert len(np.unique(noisy)) == 2
    for value in (0.0, 1.0):
        own = noisy[np.equal(BINARY, value)]
        assert own.mean() == pytest.approx(value, abs=4 * np.sqrt(added / len(own)))
        assert own.var() == pytest.approx(added, rel=0.35)  # counts of some 30 flips
    less = noised(BINARY, "died", 0.1, KEY, own_sd)[0]
    flips = [(part > 0.5) != (BINARY > 0.5) for part in (less, noisy)]
    assert flips[1][~flips[0]].mean() < 0.5 < flips[1][flips[0]].mean()  # nested: most that were flipped stay so


def test_the_store_keeps_the_scale_that_was_first(tmp_path):
    store.create(tmp_path)
    assert Accountant(tmp_path).scale("y", 2.0) == 2.0
    again = Accountant(tmp_path)
    assert again.scale("y", 3.0) == 2.0
    with pytest.raises(DisclosureError, match="more than 2 times"):
        again.scale("y", 5.0)
    assert again.scale("z", 5.0) == 5.0
    assert again.secret("outcome noise") == Accountant(tmp_path).secret("outcome noise")


def test_a_new_kit_draws_no_other_noise(tmp_path):
    """It follows from the site's store: kit after kit, each with an identity of its own, would else average it out."""
    agreed = study(policy={"name": "simulation", "outcome_noise": 0.1})
    table = Source("a", frame(40, 0)).read(agreed)
    store.create(tmp_path)
    kits = [Site(agreed, table, Credentials(None, Ed25519PrivateKey.generate(), {}), Accountant(tmp_path))
            for _ in range(2)]
    assert kits[0].party.secret != kits[1].party.secret
    np.testing.assert_array_equal(kits[0].party.noisy.y, kits[1].party.noisy.y)
    assert (kits[0].party.noisy.y != table.y).all()


def test_equal_values_have_noise_of_their_own():
    noisy = noised(np.repeat([1.0, 2.0, 3.0], 100), "y", 0.1, KEY, own_sd)[0]
    assert len(np.unique(noisy)) == 300


def test_a_constant_has_a_scale():
    assert outcome_noise._two_digits(0.0) == 1.0
    assert outcome_noise._two_digits(0.012345) == pytest.approx(0.012)


def test_delta_is_on_the_ladder():
    assert policy({"outcome_noise": 0.15}).outcome_noise == 0.15
    with pytest.raises(StudyError, match=r"multiple of 0\.05.*Take 0\.15"):
        policy({"outcome_noise": 0.12})
    with pytest.raises(StudyError, match="looser than 'standard'"):
        policy({"outcome_noise": 0.0})
