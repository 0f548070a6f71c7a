"""The pieces of a secure sum: numbers as integers, masks that cancel, shares, and the check of the sum."""

import secrets
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedci.errors import MessageError, NumericalError
from fedci.privacy import secure_sum as ss

NAMES = ("a", "b", "c", "d", "e")


def uploads(numbers, names=NAMES, about=b"round 1"):
    """(each site's masked numbers, its self seed, its pair keys)."""
    secret = {pair: secrets.token_bytes(32) for pair in combinations(names, 2)}
    pairs = {own: {peer: ss.pair_keys(secret[min(own, peer), max(own, peer)], about, own, peer)
                   for peer in names if peer != own} for own in names}
    seeds = [secrets.token_bytes(32) for _ in names]
    hidden = [ss.masked(part, own, seed, pairs[own]) for part, own, seed in zip(numbers, names, seeds, strict=True)]
    return hidden, seeds, pairs


values = st.floats(-1e11, 1e11, allow_nan=False).filter(lambda v: v == 0 or abs(v) > 1e-6)


@given(st.lists(values, min_size=1, max_size=20))
def test_a_number_keeps_its_53_bits(numbers):
    for form in (ss.WIDE, ss.RAW):
        assert ss.decode(ss.encode(np.array(numbers), 10, form), form).tolist() == numbers


@given(st.lists(st.floats(1e-30, 1e50) | st.floats(-1e50, -1e-30), min_size=1, max_size=20))
def test_columns_in_any_unit_keep_their_53_bits_alone_and_summed(numbers):
    """From 1e-30 to 1e50; sites add integers, without error, and the sum is rounded when it is made a float again."""
    values = np.array(numbers)
    one = ss.encode(values, 50, ss.RAW)
    assert ss.decode(one, ss.RAW).tolist() == numbers
    total = sum(ss.encode(np.array([value]), len(numbers), ss.RAW) for value in values)
    found, exact = Fraction(float(ss.decode(total, ss.RAW)[0])), sum(map(Fraction, numbers))
    assert abs(found - exact) <= sum(abs(Fraction(v)) for v in numbers) / 2**50


@given(st.lists(st.floats(-1e-6, 1e-6), min_size=1, max_size=20))
def test_a_small_number_is_kept_to_the_last_fractional_bit(numbers):
    for form, last in ((ss.BOUNDED, 2.0**-41), (ss.COMPACT, 2.0**-31), (ss.RELATIVE, 2.0**-49), (ss.WIDE, 2.0**-73),
                       (ss.RAW, 2.0**-173)):
        np.testing.assert_allclose(ss.decode(ss.encode(np.array(numbers), 3, form), form), numbers, rtol=0, atol=last)


LIMITS = pytest.mark.parametrize("form, limit", [(ss.BOUNDED, 2.0**22), (ss.RELATIVE, 2.0**14), (ss.WIDE, 2.0**42),
                                                 (ss.RAW, 2.0**202)], ids=["bounded", "relative", "wide", "raw"])


@LIMITS
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, None])
def test_what_cannot_be_summed_is_refused_before_it_is_sent(bad, form, limit):
    with pytest.raises(NumericalError, match="not finite|beyond"):
        ss.encode(np.array([1.0, limit / 3 if bad is None else bad]), 3, form)


@LIMITS
def test_the_largest_numbers_of_all_sites_do_not_overflow(form, limit):
    most = np.nextafter(limit / 4096, 0)
    one = ss.encode(np.array([most, -most]), 4096, form)
    assert all(4096 * abs(int(part)) < 2**63 for part in one)


def test_parts_of_a_whole_may_be_as_large_as_the_whole():
    """Statistics in units of all people's: one site may hold nearly all of them, of however many sites."""
    assert ss.decode(ss.encode(np.array([255.0, -255.0]), 4096, ss.COMPACT), ss.COMPACT).tolist() == [255.0, -255.0]
    with pytest.raises(NumericalError, match="beyond"):
        ss.encode(np.array([256.0]), 3, ss.COMPACT)


@given(st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=40), st.sampled_from([ss.BOUNDED, ss.COMPACT, ss.RELATIVE]))
def test_a_sum_of_numbers_that_fit_is_in_the_range(people, form):
    """However few of the sites hold nearly all people: the sum is below `largest`, beyond which it is garbage; and a
    site may have its share of half the range."""
    shares = np.array(people) / np.sum(people)
    parts = np.array([1.0 / len(shares) if ss.width(form) == 64 else 0.5 * max(share, 1.0 / len(shares))
                      for share in shares]) * ss.largest(form)
    for share, part in zip(shares, parts, strict=True):
        assert ss.fits(np.array([-np.nextafter(part, 0), 0.0]), len(shares), share, form)
        assert not any(ss.fits(np.array([0.0, bad]), len(shares), share, form)
                       for bad in (np.nextafter(part, np.inf), -np.inf, np.nan))
    assert parts.sum() <= ss.largest(form) * (1.0 + 1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(0, 20), st.sampled_from([ss.COMPACT, ss.RELATIVE]))
def test_what_travels_in_fewer_bits_is_the_same_sum(seed, count, form):
    """Masks, sums and signs in the lowest bits alone: to the bit."""
    rng, most = np.random.default_rng(seed), 2 ** (ss.spare(form) - 3)
    numbers = [ss.with_checks(rng.integers(-most, most, count), bytes(32), name == "a") for name in "abc"]
    seeds = [bytes([k]) * 32 for k in range(3)]
    uploads = [ss.narrowed(ss.masked(part, "x", own, {}), form) for part, own in zip(numbers, seeds, strict=True)]
    assert all(part.shape == (ss.size(count, form),) for part in uploads)
    total = ss.opened([ss.widened(part, count, form) for part in uploads], seeds, form)
    np.testing.assert_array_equal(total[:count], sum(part[:count] for part in numbers))
    again = ss.widened(ss.narrowed(total, form), count, form)
    np.testing.assert_array_equal(again, total)
    assert ss.is_true_sum(again, bytes(32))


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_the_sum_is_exact_whatever_the_order(seed, count):
    rng = np.random.default_rng(seed)
    numbers = [rng.integers(-2**58, 2**58, count) for _ in NAMES]
    hidden, seeds, _ = uploads(numbers)
    order = rng.permutation(len(NAMES))
    for at in (range(len(NAMES)), order):
        assert ss.opened([hidden[k] for k in at], [seeds[k] for k in at]).tolist() == sum(numbers).tolist()


def test_an_upload_is_uniform():
    """4096 bytes of an upload of zeros, χ² over 256 values: beyond ±5 sd once in a million uploads."""
    hidden, seeds, pairs = uploads([np.zeros(512, np.int64) for _ in NAMES])
    for view in (hidden[2],  # as the coordinator sees it
                 hidden[2] - ss.stream(seeds[2], 512).view(np.int64),  # with its self seed: the pair masks stay
                 ss.masked(np.zeros(512, np.int64), "c", seeds[2], {})):  # with all its peers' help: the self mask
        counts = np.bincount(view.view(np.uint8), minlength=256)
        chi = ((counts - 16.0) ** 2 / 16.0).sum()
        assert abs(chi - 255) < 5 * np.sqrt(2 * 255)
    assert pairs["c"]["d"].mask == pairs["d"]["c"].mask


def test_masks_of_another_request_are_others():
    secret = secrets.token_bytes(32)
    one, two = (ss.pair_keys(secret, ss.info("sum", 7, asked), "a", "b") for asked in ("theta", "crafted"))
    assert len({one.mask, two.mask, one.seal, two.seal, one.unseal, two.unseal}) == 6


def test_a_sum_with_one_site_asked_otherwise_stays_closed():
    """The masks do not cancel: what is opened is noise."""
    numbers = [np.ones(64, np.int64) for _ in NAMES]
    alike, seeds, _ = uploads(numbers)
    other, more, _ = uploads(numbers, about=b"another request")
    total = ss.opened([*alike[:-1], other[-1]], [*seeds[:-1], more[-1]])
    assert np.median(np.abs(total.astype(float))) > 2.0**58


def test_any_t_shares_open_a_seed_and_t_minus_1_fit_every_seed():
    seed, needed = secrets.token_bytes(32), ss.threshold(5)
    shares = ss.split(seed, secrets.token_bytes(32), 5, needed)
    assert needed == 4
    for places in combinations(range(5), needed):
        at = ss.weights([k + 1 for k in places])
        assert ss.join([shares[k] for k in places], at) == seed
    with pytest.raises(MessageError, match="do not fit together"):  # a third share too few: a number, and no seed
        ss.join(shares[:needed - 1], ss.weights(range(1, needed)))


def test_t_minus_1_shares_say_nothing():
    """Whatever the seed, its first t − 1 shares look alike: one bit of each, over 400 splittings of two seeds that
    differ in every bit, agrees between them within 5 sd of a fair coin (a false alarm once in a million runs)."""
    ones = {}
    for seed in (bytes(32), b"\xff" * 32):
        made = [ss.split(seed, secrets.token_bytes(32), 5, 4)[:3] for _ in range(400)]
        ones[seed] = sum(share[40] & 1 for shares in made for share in shares)
    assert all(abs(count - 600) < 5 * np.sqrt(300) for count in ones.values())


def test_a_late_upload_stays_closed():
    """Its peers gave up all they share with the site, as if it were gone; its self mask still hides it."""
    numbers = [np.arange(512) for _ in NAMES]
    hidden, seeds, pairs = uploads(numbers)
    late = hidden[1]
    for peer, keys in pairs["b"].items():
        mask = ss.stream(keys.mask, 512).view(np.int64)
        late = late - mask if peer > "b" else late + mask
    assert np.median(np.abs((late - numbers[1]).astype(float))) > 2.0**58
    assert (late - ss.stream(seeds[1], 512).view(np.int64) == numbers[1]).all()  # with it: open, so the test can tell


def test_a_share_opens_only_where_it_was_sealed_for():
    about, key = ss.info("sum", 3, "x"), secrets.token_bytes(32)
    share = secrets.token_bytes(ss.SHARE_BYTES)
    sealed = ss.seal(share, key, about)
    assert ss.unseal(sealed, key, about) == share
    flipped = f"{int(sealed[0], 16) ^ 1:x}{sealed[1:]}"
    for wrong in ((flipped, key, about), (sealed, secrets.token_bytes(32), about),
                  (sealed, key, ss.info("sum", 4, "x")), ("no hex", key, about), ("", key, about)):
        assert ss.unseal(*wrong) is None


def test_the_check_knows_the_sum_from_any_other():
    rng, key = np.random.default_rng(0), secrets.token_bytes(32)
    numbers = [rng.integers(-2**60, 2**60, 70_000) for _ in range(3)]
    told = [ss.with_checks(part, key, s == 0).view(np.uint64) for s, part in enumerate(numbers)]
    total = (told[0] + told[1] + told[2]).view(np.int64)
    assert ss.is_true_sum(total, key)
    for at, change in ((0, 1), (69_999, -(2**63)), (12, 2**40), (70_000, 1)):
        other = total.copy()
        other[at] ^= change
        assert not ss.is_true_sum(other, key)
    assert not ss.is_true_sum(total, secrets.token_bytes(32))


@pytest.mark.parametrize("numbers", [
    np.random.default_rng(1).integers(-2**63, 2**63 - 1, 70_001), np.full(ss.CHUNK, -2**63), np.full(9, 2**63 - 1),
    np.arange(-3, 4), np.zeros(0, np.int64)], ids=["any", "least", "most", "small", "none"])
def test_the_check_is_exact_whatever_the_numbers(numbers):
    """Python's integers against products of floats: none of them rounds."""
    key = secrets.token_bytes(32)
    parts = [numbers[start:start + ss.CHUNK] for start in range(0, len(numbers), ss.CHUNK)]
    exact = sum((int(low) + (int(high) << 16)) * int(x) for k, part in enumerate(parts)
                for (low, high), x in zip(ss._factors(key, k * ss.CHUNK, len(part)), part, strict=True)) % 2**96
    assert sum(int(part) << 32 * k for k, part in enumerate(ss.checks(numbers, key))) == exact


def test_the_checks_say_nothing_of_the_sum():
    """Hidden by the pad: two sums under one key, told by the lead, differ; the pad alone is left of a sum of zeros."""
    key = secrets.token_bytes(32)
    assert (ss.with_checks(np.zeros(4, np.int64), key, True)[4:].view(np.uint64) == ss.check_pad(key)).all()
    assert not ss.with_checks(np.zeros(4, np.int64), key, False)[4:].any()


@pytest.mark.parametrize("sites, needed", [(3, 3), (4, 3), (5, 4), (10, 7), (50, 34)])
def test_the_threshold(sites, needed):
    assert ss.threshold(sites) == needed
