"""A large site's rows in blocks, and the inputs through which its own function is learnt."""

import numpy as np
import pytest

from fedci.errors import SizeError
from fedci.model import padding
from fedci.model.shared import inducing
from support.large import ROWS, blocks, make, some_rows


@pytest.fixture(scope="module")
def model():
    return make()


@pytest.fixture(scope="module")
def rows():
    return some_rows()


def test_more_inducing_inputs_contain_the_fewer(model, rows):
    few, many = (inducing.choose(model.kernel, rows[0], count) for count in (5, 20))
    np.testing.assert_array_equal(few, many[:5])
    assert len(set(many)) == 20


def test_every_person_is_in_one_block_of_their_arm(model, rows):
    large = blocks(model, rows, 4)
    people = np.asarray(large.mask) > 0
    np.testing.assert_array_equal(np.sort(np.asarray(large.row)[people]), np.arange(ROWS))
    for i, here in enumerate(people):
        assert set(rows[1][np.asarray(large.row[i])[here]]) <= {int(large.arm[i])}


@pytest.mark.parametrize("count", [1, 7, 1000, 5000, 123_456])
def test_blocks_come_in_classes_and_waste_a_quarter_at_most(count):
    made = inducing.blocks_of(count, 100)
    assert count <= 100 * made <= 1.25 * (count + 100)


def test_sites_of_like_size_share_a_compilation_however_their_people_fall_into_arms(model):
    """Of 300 people in blocks of 16, 19 or 20 are needed."""
    x, _, y = some_rows(300)
    cut = [inducing.cut(x, (np.arange(300) < treated).astype(float), y, np.zeros(4), 0, model.kernel, 10, 16)
           for treated in range(100, 120)]
    needed = {-(-treated // 16) - (treated - 300) // 16 for treated in range(100, 120)}
    assert needed == {19, 20}
    assert {blocks.x.shape for blocks in cut} == {(20, 16, x.shape[1])}


def test_memory_is_linear_in_the_rows_and_a_site_may_set_a_limit(monkeypatch):
    need = [inducing.bytes_needed(rows, 20, 101) for rows in (10**5, 10**6, 10**7)]
    assert need[2] / need[1] < 10.0
    assert need[1] < 2**30
    monkeypatch.setenv(padding.LIMIT, "0.01")
    with pytest.raises(SizeError, match="site 'oslo': 1,000,000 rows need about .* 0.0 GiB are free"):
        padding.check_memory("oslo", 10**6, need[1], "Take fewer.")
    monkeypatch.setenv(padding.LIMIT, "much")
    with pytest.raises(SizeError, match="FEDCI_MEMORY_GIB = 'much' is no number"):
        padding.bytes_available()
