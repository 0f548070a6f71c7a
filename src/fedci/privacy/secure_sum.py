"""Sums that nobody sees the parts of: fixed point, masks that cancel, shares of the seeds, and a check of the sum.

    number     v = Σ_k a_k · 2^−b_k, an int64 for each b_k of its form; added modulo 2⁶⁴ without error
               BOUNDED: |v| up to 2²² / m to 2⁻⁴¹     WIDE: up to 2⁴² / m to 2⁻⁷³     RAW: up to 2²⁰² / m to 2⁻¹⁷³
               RELATIVE: up to 2¹⁴ / m to 2⁻⁴⁹        COMPACT: up to 2⁸ to 2⁻³¹, in 40 bits on their way
    pair       S_ij = HKDF(X25519(i, j); run, study, cohort), then for one request  HKDF(S_ij; round, request) =
               mask seed | key of i's share for j | key of j's share for i
    upload     y_i = x_i + PRG(b_i) + Σ_{j>i} PRG(s_ij) − Σ_{j<i} PRG(s_ij),      b_i = HKDF(i's own secret; …)
    shares     b_i cut by Shamir into m shares, t = ⌊2m/3⌋ + 1 of which open it, one sealed for every site
    sum        Σ y_i − Σ PRG(b_i) = Σ x_i mod 2⁶⁴
    check      Σ_j r_j x_ij mod 2⁹⁶ (+ a pad, once) rides along as three more numbers; r and the pad are the sites' own
               secret, so a coordinator that tells another sum is caught but once in 2³² times

PRG is ChaCha20. Everything is a function of a site's secret and of the request: asked again, a site says the same
bytes, and to another request its masks are others. Docs: docs/security.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fedci.errors import MessageError, NumericalError

Form = tuple[int, ...]
"""Fractional bits of the integers that hold one number, the coarsest first."""
BOUNDED: Form = (40,)
"""Gradients of standardised data."""
RELATIVE: Form = (48,)
"""Statistics in units of their largest (`Family.units`): what is lost is what a factorisation of their matrix loses."""
COMPACT: Form = (30,)
"""Statistics that many rounds tell, in the same units, which are those of all people together: so what honest sites
send adds up to some tens, however they share it. Rounded to 5e-10 of a unit: an objective moves by 5e-6 nats where that
is 1e4, and a gain below 0.03 is none."""
WIDE: Form = (20, 72)
"""Effects in model units, and statistics of data that are not standardised, lie between 1e-6 and 1e12, and keep a
float64's 53 bits."""
RAW: Form = tuple(range(-140, 173, 52))
"""Columns in whatever unit a study has them: years, cents, cells per litre, and their squares."""
WIDTHS = {COMPACT: 40}
"""Bits in which the integers of a form travel, where they are fewer than 64: sums and masks modulo 2⁶⁴ are in their
lowest bits what they are modulo fewer."""
CHECKS = 3
CHUNK = 2**15
LIMB = 21
LIMB_MASK = (1 << LIMB) - 1
PRIME = 2**521 - 1
"""Shamir's field: larger than a seed, and a Mersenne prime needs no table."""
SEED_BYTES, SHARE_BYTES = 32, 66
ONE_NONCE = bytes(12)
"""Every key below is made for one message."""
DOMAIN = "fedci-secure-sum-1"


def width(form: Form) -> int:
    return WIDTHS.get(form, 64)


def spare(form: Form) -> int:
    """Bits that the sum may take: one is left for rounding, one for the sign."""
    return width(form) - 2


def threshold(sites: int) -> int:
    """How many sites open a sum, ⌊2m/3⌋ + 1."""
    return 2 * sites // 3 + 1


def info(*parts: str | int) -> bytes:
    """Every part length-prefixed: no two contexts read the same."""
    words = [str(part).encode() for part in (DOMAIN, *parts)]
    return b"".join(len(word).to_bytes(4, "big") + word for word in words)


def derived(secret: bytes, about: bytes, length: int = SEED_BYTES) -> bytes:
    return HKDF(SHA256(), length, salt=None, info=about).derive(secret)


# --- numbers as integers


def largest(form: Form) -> float:
    """Every sum is below it."""
    return 2.0 ** (spare(form) - form[0])


def fits(values: np.ndarray, sites: int, share: float, form: Form) -> bool:
    """Whether numbers of a site that holds this share of all people may be summed: where every site of the cohort keeps
    to it the sum is below `largest`. Statistics grow with a site's people, so it may have its share of the range."""
    part = 1.0 / sites if width(form) == 64 else 0.5 * max(share, 1.0 / sites)
    return not values.size or bool(np.abs(values).max() < largest(form) * part)  # NaN too


def encode(values: np.ndarray, sites: int, form: Form) -> np.ndarray:
    """[len(form) · k] int64 of [k] floats, the coarsest parts first; NumericalError where one is not finite or the sum
    could overflow."""
    rest = np.asarray(values, float).ravel()
    if not np.isfinite(rest).all():
        raise NumericalError("a number to be summed is not finite")
    most = largest(form) / (sites if width(form) == 64 else 1)
    if rest.size and np.abs(rest).max() >= most:
        raise NumericalError(f"a number to be summed is beyond ±{most:.3g}, the range of the secure sum of {sites} "
                             f"sites. Look for extreme values, or standardise (model.standardise = true)")
    parts = [np.rint(rest * 2.0**form[0])]
    for before, bits in pairwise(form):
        rest = rest - parts[-1] * 2.0**-before  # exact: what is left has fewer digits
        parts.append(np.rint(rest * 2.0**bits))
    return np.concatenate(parts).astype(np.int64)


def decode(total: np.ndarray, form: Form) -> np.ndarray:
    """[k] floats of the summed integers."""
    parts = np.split(np.asarray(total, np.int64), len(form))
    finest = zip(reversed(parts), reversed(form), strict=True)
    return np.asarray(sum(np.ldexp(part.astype(float), -bits) for part, bits in finest))


# --- as they travel


def size(count: int, form: Form) -> int:
    """Of int64 that hold so many integers of a form, and the checks, which stay whole."""
    return -(-count * width(form) // 64) + CHECKS


def narrowed(numbers: np.ndarray, form: Form) -> np.ndarray:
    """[size] int64 of [k + 3]: the lowest bits of each, one after the other."""
    if width(form) == 64:
        return numbers
    low = np.ascontiguousarray(numbers[:-CHECKS], "<i8").view(np.uint8).reshape(-1, 8)[:, :width(form) // 8].ravel()
    padded = np.pad(low, (0, -len(low) % 8))
    return np.concatenate([padded.view("<i8").astype(np.int64), numbers[-CHECKS:]])


def widened(words: np.ndarray, count: int, form: Form) -> np.ndarray:
    """[k + 3] int64 of what travelled, each between −2^(width − 1) and 2^(width − 1)."""
    if width(form) == 64:
        return words
    held = np.ascontiguousarray(words, "<i8")
    low = np.ndarray(count, "<i8", held, strides=(width(form) // 8,))  # the last one's higher bytes are the checks'
    return np.concatenate([_signed(low, form), words[-CHECKS:]])


def _signed(numbers: np.ndarray, form: Form) -> np.ndarray:
    """Of their lowest bits, the highest is the sign."""
    away = 64 - width(form)
    return np.asarray(numbers, np.int64) << away >> away


# --- masks


def stream(seed: bytes, count: int) -> np.ndarray:
    """[count] uniform uint64 from ChaCha20."""
    cipher = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * count)), "<u8")


@dataclass(frozen=True)
class PairKeys:
    """What two sites share for one request."""

    mask: bytes
    seal: bytes
    """Of this site's share for the peer."""
    unseal: bytes
    """Of the peer's share for this site."""


def pair_keys(secret: bytes, about: bytes, own: str, peer: str) -> PairKeys:
    made = derived(secret, about, 3 * SEED_BYTES)
    mask, first, second = (made[k:k + SEED_BYTES] for k in range(0, 3 * SEED_BYTES, SEED_BYTES))
    return PairKeys(mask, first, second) if own < peer else PairKeys(mask, second, first)


def masked(numbers: np.ndarray, own: str, self_seed: bytes, pairs: Mapping[str, PairKeys]) -> np.ndarray:
    """y_i [k] int64: uniform to whoever lacks one of the seeds."""
    count = len(numbers)
    hidden = numbers.view(np.uint64) + stream(self_seed, count)
    for peer, keys in pairs.items():
        mask = stream(keys.mask, count)
        hidden = hidden + mask if own < peer else hidden - mask
    return hidden.view(np.int64)


def opened(uploads: Sequence[np.ndarray], self_seeds: Sequence[bytes], form: Form = WIDE) -> np.ndarray:
    """Σ x_i [k + 3] int64 from all sites' uploads and self seeds: the pairwise masks have cancelled."""
    total = np.zeros(len(uploads[0]), np.uint64)
    for upload, seed in zip(uploads, self_seeds, strict=True):
        total += np.asarray(upload, np.int64).view(np.uint64) - stream(seed, len(upload))
    whole = total.view(np.int64)
    return np.concatenate([_signed(whole[:-CHECKS], form), whole[-CHECKS:]])


# --- shares of a seed


def split(seed: bytes, coins: bytes, places: int, needed: int) -> list[bytes]:
    """Shamir: f(1) … f(places), f of degree needed − 1 with f(0) = seed and its other coefficients from `coins`."""
    wide = SHARE_BYTES + 16  # 128 bits more than the field: the remainder is as good as uniform
    made = np.ascontiguousarray(stream(coins, -(-wide * (needed - 1) // 8))).tobytes()
    rest = [int.from_bytes(made[k * wide:(k + 1) * wide], "big") % PRIME for k in range(needed - 1)]
    return [_polynomial([int.from_bytes(seed, "big"), *rest], x).to_bytes(SHARE_BYTES, "big")
            for x in range(1, places + 1)]


def _polynomial(coefficients: Sequence[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value


def weights(places: Sequence[int]) -> list[int]:
    """Lagrange's at 0, for shares from these places (from 1)."""
    factors = []
    for place in places:
        top = bottom = 1
        for other in places:
            if other != place:
                top, bottom = top * other % PRIME, bottom * (other - place) % PRIME
        factors.append(top * pow(bottom, -1, PRIME) % PRIME)
    return factors


def join(shares: Sequence[bytes], at: Sequence[int]) -> bytes:
    """f(0) from `needed` shares and their `weights`; MessageError where it is no seed (a share was wrong)."""
    secret = sum(int.from_bytes(share, "big") * weight for share, weight in zip(shares, at, strict=True)) % PRIME
    if secret.bit_length() > 8 * SEED_BYTES:
        raise MessageError("the shares of a site's mask do not fit together: one of them is wrong")
    return secret.to_bytes(SEED_BYTES, "big")


def seal(share: bytes, key: bytes, about: bytes) -> str:
    return ChaCha20Poly1305(key).encrypt(ONE_NONCE, share, about).hex()


def unseal(sealed: str, key: bytes, about: bytes) -> bytes | None:
    """The share; None where it was made for another request, cohort or site, or was changed."""
    try:
        share = ChaCha20Poly1305(key).decrypt(ONE_NONCE, bytes.fromhex(sealed), about)
    except (InvalidTag, ValueError, TypeError):
        return None
    return share if len(share) == SHARE_BYTES else None


# --- the check of the sum


def checks(numbers: np.ndarray, key: bytes) -> np.ndarray:
    """[3] Σ r_j x_j mod 2⁹⁶, r_j of 32 random bits, in three parts of 32 bits: linear, so the sites' add up to that of
    the sum. A difference in x_j has its lowest bit among the 64 below, and r_j moves it to 2³² different places.

    x = x₀ + 2²¹x₁ + 2⁴²x₂, the last with the sign: 2¹⁵ products of 21 and 16 bits add up to less than 2⁵³, so floats
    hold every partial sum and a matrix product is exact."""
    total = 0
    for start in range(0, len(numbers), CHUNK):
        x = numbers[start:start + CHUNK]
        r, parts = _factors(key, start, len(x)), np.empty((3, len(x)))
        parts[0], parts[1], parts[2] = x & LIMB_MASK, x >> LIMB & LIMB_MASK, x >> 2 * LIMB
        for (k, half), found in np.ndenumerate(parts @ r):
            total += int(found) << LIMB * k + 16 * half
    return _parts(total)


def _factors(key: bytes, start: int, count: int) -> np.ndarray:
    """[count, 2] halves of 16 bits, the lower first; each chunk has a stream of its own."""
    seed = derived(key, info("factors", start))
    return stream(seed, -(-count // 2)).view("<u2")[:2 * count].reshape(count, 2).astype(float)


def _parts(value: int) -> np.ndarray:
    return np.array([value >> 32 * k & 0xFFFFFFFF for k in range(CHECKS)], np.uint64)


def check_pad(key: bytes) -> np.ndarray:
    return stream(derived(key, info("pad")), CHECKS)


def with_checks(numbers: np.ndarray, key: bytes, lead: bool) -> np.ndarray:
    """[k + 3]: one site of the cohort, the lead, adds the pad that hides the checks from the coordinator."""
    appended = checks(numbers, key) + (check_pad(key) if lead else np.uint64(0))
    return np.concatenate([numbers, appended.view(np.int64)])


def is_true_sum(total: np.ndarray, key: bytes) -> bool:
    """Whether these [k + 3] integers are the sum of what the sites sent."""
    parts = total[-CHECKS:].view(np.uint64) - check_pad(key)
    check = sum(int(part) << 32 * k for k, part in enumerate(parts))
    return bool((_parts(check) == checks(total[:-CHECKS], key)).all())
