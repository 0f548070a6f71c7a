"""The paper's tables as printed."""

from collections import Counter
from decimal import Decimal

import pytest

from fedci.benchmark.pages.published import OTHERS, datasets, numbers_of_sources, others, published
from fedci.benchmark.pages.summary import Group

BART = Group("data-1", "P2", "BART", "com", 3)


# --- the paper's figures


def test_the_paper_has_38_rows_of_figures_a_data_set():
    """Five baselines: loc and agg at two numbers of sources, com at three; FedCI at three."""
    rows = [row for row in published().values() if row.method not in OTHERS]
    assert Counter(row.dataset for row in rows) == {"data-1": 38, "data-2": 38, "ihdp": 38}
    assert datasets() == ("data-1", "data-2", "ihdp")
    assert Counter(row.mode for row in rows) == {"loc": 30, "agg": 30, "com": 45, "fed": 9}


def test_other_papers_have_data_sets_of_their_own():
    assert others() == {"ihdp-causalrff": "CausalRFF", "ihdp-missing": "CausalFI"}
    assert (numbers_of_sources("ihdp-causalrff"), numbers_of_sources("ihdp-missing")) == ((1, 2, 3), (2, 4, 6))
    for key, pehe, ate in ((("ihdp-causalrff", "CausalRFF", "fed", 3), "1.2 0.18", "0.5"),
                           (("ihdp-missing", "CausalFI", "fed", 2), "3.67 1.7", "0.73")):
        assert published()[key].of("pehe") == tuple(Decimal(text) for text in pehe.split())
        assert published()[key].of("ate_error") == (Decimal(ate), None)


def test_numbers_of_sources_of_the_paper():
    assert (numbers_of_sources("data-1"), numbers_of_sources("ihdp")) == ((1, 3, 5), (1, 2, 3))
    assert numbers_of_sources("linear") == ()


@pytest.mark.parametrize("dataset, method, mode, sources, figures", [
    ("data-1", "BART", "com", 1, "5.98 0.06 0.83 0.11"),
    ("data-1", "X-Learner", "agg", 5, "5.09 0.05 0.52 0.13"),
    ("data-1", "CEVAE", "com", 3, "2.85 0.06 0.23 0.07"),
    ("data-1", "FedCI", "fed", 5, "1.99 0.05 0.29 0.06"),
    ("data-2", "OrthoRF", "loc", 5, "40.0 0.9 4.40 1.2"),
    ("data-2", "CEVAE", "loc", 3, "21.4 0.7 2.11 0.4"),
    ("data-2", "R-Learner", "com", 1, "25.9 0.6 19.0 0.8"),
    ("data-2", "FedCI", "fed", 1, "9.28 0.4 2.37 0.5"),
    ("ihdp", "BART", "loc", 3, "6.56 3.3 1.38 0.5"),
    ("ihdp", "OrthoRF", "com", 3, "3.75 1.5 1.56 0.8"),
    ("ihdp", "FedCI", "fed", 1, "2.88 0.8 1.43 0.7"),
    ("ihdp", "FedCI", "fed", 2, "2.36 0.5 1.03 0.4"),
    ("ihdp", "FedCI", "fed", 3, "2.35 0.6 0.51 0.2"),
])
def test_figures_as_printed(dataset, method, mode, sources, figures):
    row = published()[dataset, method, mode, sources]
    assert [*row.of("pehe"), *row.of("ate_error")] == [Decimal(text) for text in figures.split()]
    assert str(published()["data-2", "BART", "com", 1].pehe) == "18.0"


def test_what_the_paper_prints_as_a_dash_is_left_out():
    assert not any(row.sources == 1 and row.mode in ("loc", "agg") for row in published().values())
