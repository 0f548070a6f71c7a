"""The laws of what is missing are learnt alike however the sums are taken, and nothing is asked where nothing is."""

import numpy as np
import pytest

from fedci import Source
from fedci.protocol import completing
from support.gaps import DRAWN, SIZES, opened, sources
from support.masked import SECURE
from tests_support import frame, study


@pytest.fixture(scope="module")
def clear():
    return opened(study(**DRAWN), sources())


def test_where_nothing_is_missing_a_study_has_the_bits_that_it_has_without_the_key():
    whole = [Source(f"site-{k}", frame(rows, k)) for k, rows in enumerate(SIZES)]
    with_key, without = (opened(study(**{**DRAWN, "missing": missing}), whole) for missing in ("model", "refuse"))
    assert not with_key[2].laws.size
    assert with_key[3][0] == without[3][0]
    np.testing.assert_array_equal(with_key[3][1], without[3][1])


def test_masked_sums_give_the_laws_and_the_round_that_clear_ones_do(clear):
    """Sums under masks are exact to 2⁻⁷³ of a number, and those of a round to 1e-7 of the objective."""
    masked = opened(study(**DRAWN, policy=SECURE), sources())
    np.testing.assert_allclose(masked[2].laws, clear[2].laws, rtol=1e-8, atol=1e-10)
    assert masked[3][0] == pytest.approx(clear[3][0], rel=1e-6)
    np.testing.assert_allclose(masked[3][1], clear[3][1], rtol=1e-4, atol=1e-4)


def test_neither_the_order_of_sites_nor_that_of_people_changes_what_is_drawn(clear):
    rng = np.random.default_rng(0)
    mixed = [Source(source.name, source.data.iloc[rng.permutation(len(source.data))]) for source in sources((2, 0, 1))]
    again = opened(study(**DRAWN), mixed)
    np.testing.assert_allclose(again[2].laws, clear[2].laws, rtol=1e-8, atol=1e-10)  # sums in another order
    assert again[3][0] == pytest.approx(clear[3][0], rel=1e-9)


def test_of_a_column_that_others_tell_nothing_is_left(clear):
    """Of the explained share 0 is nothing and 1 all; here age tells little of either column."""
    _, contract, known, _ = clear
    gaps = completing.gaps_of(contract.study, known, 3)
    share = completing.explained(gaps, known.laws, known.columns.values[1] / known.scales.x_sd**2)
    assert share.shape == (2,)
    assert ((share >= 0) & (share < 0.5)).all()
