"""Size classes, padded sites, and the refusal of what memory cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedci.errors import SizeError
from fedci.model import padding
from fedci.model.paper import elbo


def test_the_first_classes():
    assert sorted({padding.size_class(n) for n in range(161)}) == [
        8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160]


@given(st.integers(0, 10**6))
def test_a_class_holds_its_rows_and_little_more(n):
    rows = padding.size_class(n)
    assert n <= rows
    assert rows <= max(8, n + 7, 1.25 * n)
    assert padding.size_class(rows) == rows
    assert padding.size_class(n + 1) >= rows


@pytest.mark.parametrize("n", [0, 1, 6, 8, 9])
def test_padding_follows_the_rows_and_is_masked(make, n):
    x, w, y = make.rows(n)
    u = np.arange(24.0)
    site = padding.pad_site(x, w, y, u, 2)
    assert len({len(part) for part in (site.x, site.w, site.y, site.mask)}) == 1
    for padded, part in ((site.x, x), (site.w, w), (site.y, y), (site.mask, np.ones(n))):
        np.testing.assert_array_equal(padded[:n], part)
        np.testing.assert_array_equal(padded[n:], 0)
    np.testing.assert_array_equal(site.u, u)
    assert site.index == 2


@pytest.mark.parametrize("which", [0, 2], ids=["x", "y"])
def test_float32_is_refused(make, which):
    rows = list(make.rows(4))
    rows[which] = rows[which].astype(np.float32)
    with pytest.raises(TypeError, match="float64"):
        padding.pad_site(*rows, np.zeros(24), 0)


def test_sites_of_one_class_share_a_compilation(make):
    model = make.model()
    vector = make.theta(model)
    roots = elbo.draw(model, vector, np.full((4, 6), 0.5)).roots
    before = elbo.evaluate_site.jitted._cache_size()
    for n in (3, 6, 8):
        elbo.evaluate_site(model, vector, roots, padding.pad_site(*make.rows(n), np.zeros(model.u_dim), 0), 0.0)
    assert elbo.evaluate_site.jitted._cache_size() <= before + 1  # none where another test has compiled it already


def test_a_site_too_large_for_the_memory_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(padding, "bytes_available", lambda: 2**30)
    padding.check_memory("oslo", 500, padding.bytes_needed(500, 8), "Take fewer.")
    with pytest.raises(SizeError, match="oslo.*50,000 rows"):
        padding.check_memory("oslo", 50_000, padding.bytes_needed(50_000, 8), "Take fewer.")


def test_memory_grows_with_the_square_of_the_rows_and_not_with_the_draws():
    """Where one draw fills the batch already."""
    assert padding.bytes_needed(8192, 8) == 4 * padding.bytes_needed(4096, 8)
    assert padding.bytes_needed(4096, 1) == padding.bytes_needed(4096, 1024)


def test_the_machine_has_memory():
    assert padding.bytes_available() > 2**20


@pytest.mark.parametrize("n, rows", [(0, 8), (1, 8), (8, 8), (9, 16), (33, 40), (50, 56), (64, 64), (65, 80),
                                     (1000, 1024), (1025, 1280)])
def test_size_classes(n, rows):
    assert padding.size_class(n) == rows
    assert n <= rows <= max(8, 1.25 * n + 8)
