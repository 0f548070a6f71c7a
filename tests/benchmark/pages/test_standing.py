"""Where FedCI stands beside its peers: ratios with their errors, and whom it is compared with."""

import pytest

from fedci.benchmark.pages.standing import relative_error, standings
from fedci.benchmark.pages.summary import summarise
from support.figures import cells


def test_the_relative_error_is_the_ratio_of_means_with_its_standard_error():
    ours, theirs = summarise(cells([1.0, 2.0, 9.0]) + cells([2.0, 4.0], "BART", "com")).values()
    assert relative_error(theirs, ours) == (0.5, 0.0)  # o − r·t = 0 in both common replications
    ours, theirs = summarise(cells([1.0, 3.0]) + cells([2.0, 2.0], "BART", "com")).values()
    assert relative_error(theirs, ours) == pytest.approx((1.0, 0.5))  # residuals −1, 1: sd √2, over √2 · 2


def test_peers_are_those_with_the_combined_rows_the_best_first():
    """Of the greatest number of sources with a peer; FedCI's own kinds and other modes are none."""
    rows = (cells([1.0, 1.0]) + cells([2.0, 2.0], "BART", "com") + cells([1.5, 1.5], "CEVAE", "com")
            + cells([9.0, 9.0], "FedCI (paper)", "com") + cells([0.1, 0.1], "BART", "loc") + cells([1.0], sources=5))
    (standing,) = standings(summarise(rows), {})
    assert standing.ours.group.sources == 3
    assert [peer.method for peer in standing.peers] == ["CEVAE", "BART"]
    assert (standing.best.relative, standing.loses) == (pytest.approx(1 / 1.5), False)


def test_who_is_alone_stands_nowhere():
    assert standings(summarise(cells([1.0])), {}) == []
