"""Means, standard errors and paired differences against numbers worked out by hand."""

import math

import pytest

from fedci.benchmark.pages.summary import (
    Group,
    common,
    find,
    null_datasets,
    paired_to_ours,
    protocols,
    repeats,
    rows_of,
    select,
    statistic,
    summarise,
)
from fedci.benchmark.pages.summary import datasets as datasets_of
from fedci.benchmark.run.cells import Cell


def cell(method="FedCI", mode="fed", replication=0, pehe=math.nan, *, dataset="data-1", sources=3, protocol="P2",
         **figures):
    return Cell(dataset=dataset, method=method, mode=mode, sources=sources, replication=replication, protocol=protocol,
                pehe=pehe, **figures)


def cells(values, method="FedCI", mode="fed", **rest):
    return [cell(method, mode, replication, value, **rest) for replication, value in enumerate(values)]


OURS = Group("data-1", "P2", "FedCI", "fed", 3)
BART = Group("data-1", "P2", "BART", "com", 3)


def test_mean_standard_error_median_and_count():
    found = statistic([1.0, 2.0, 6.0])  # deviations −2, −1, 3: variance 14/2 = 7
    assert found.mean == 3
    assert found.se == pytest.approx(math.sqrt(7 / 3))
    assert found.median == 2
    assert found.count == 3


def test_one_replication_has_no_standard_error_and_none_has_no_mean():
    assert statistic([4.0])[::2] == (4.0, 4.0)
    assert math.isnan(statistic([4.0]).se)
    assert math.isnan(statistic([]).mean)
    assert statistic([]).count == 0


def test_a_figure_a_method_lacks_is_left_out_of_its_mean():
    found = summarise([cell(replication=0, pehe=1.0, coverage=0.9), cell(replication=1, pehe=3.0)])[OURS]
    assert (found.of("pehe").mean, found.of("pehe").count) == (2.0, 2)
    assert (found.of("coverage").mean, found.of("coverage").count) == (0.9, 1)
    assert math.isnan(found.of("bytes").mean)


def test_paired_differences_are_over_common_replications():
    ours = cells([1.0, 2.0, 3.0, 100.0])
    theirs = [cell("BART", "com", r, value) for r, value in ((0, 1.5), (1, 4.0), (2, 2.5), (7, 50.0))]
    found = paired_to_ours(summarise(ours + theirs), BART, "pehe")
    assert found.difference == pytest.approx(2 / 3)  # 0.5, 2, −0.5
    assert found.se == pytest.approx(math.sqrt((1 / 36 + 64 / 36 + 49 / 36) / 2 / 3))
    assert (found.wins, found.count) == (2, 3)
    assert (found.ours, found.theirs) == (2.0, pytest.approx(8 / 3))
    assert found.median == 0.5


def test_a_figure_over_some_replications_alone():
    summaries = summarise(cells([1.0, 2.0, 6.0]) + cells([3.0, 3.0], "BART", "com"))
    both = common(summaries[BART], summaries[OURS], "pehe")
    assert both == [0, 1]
    assert summaries[OURS].over("pehe", both) == (1.5, pytest.approx(0.5), 1.5, 2)


def test_which_data_sets_and_protocols_there_are():
    summaries = summarise(cells([1.0], dataset="null/std", protocol="P3") + cells([1.0]))
    assert datasets_of(summaries) == ["data-1", "null/std"]
    assert protocols(summaries) == ["P2", "P3"]
    assert null_datasets(summaries) == ["null/std"]


def test_no_common_replication_no_difference():
    summaries = summarise([cell(replication=0, pehe=1.0), cell("BART", "com", 1, 2.0)])
    assert paired_to_ours(summaries, BART, "pehe") is None


def test_a_tie_is_not_a_win():
    found = paired_to_ours(summarise(cells([1.0, 1.0]) + cells([1.0, 2.0], "BART", "com")), BART, "pehe")
    assert found.wins == 1


def test_a_failure_is_counted_with_the_reason_of_the_first():
    rows = cells([1.0], "BART", "com") + [cell("BART", "com", r, failed=f"reason {r}") for r in (5, 2)]
    found = summarise(rows)[BART]
    assert (len(found.done), found.failures, found.reason) == (1, 2, "reason 2")


def test_a_failure_counts_in_every_protocol_the_method_would_have_answered():
    """A failed fit is written once, under P2."""
    failed = [cell("BART", "com", 1, failed="no"), cell("FedCI", "fed", 1, failed="no")]
    reported = [cell("X-Learner", "com", 0, 1.0, protocol=protocol) for protocol in ("P1", "P2", "P3")]
    summaries = summarise(failed + reported)
    assert {group.protocol for group in summaries if group.method == "BART"} == {"P2", "P3"}
    assert {group.protocol for group in summaries if group.method == "FedCI"} == {"P1", "P2", "P3"}
    assert {group.protocol for group in summarise(failed)} == {"P2"}


def test_a_later_row_replaces_an_earlier_one():
    found = summarise([cell(failed="at first"), cell(pehe=1.0), cell(pehe=2.0)])[OURS]
    assert (found.of("pehe").mean, found.failures) == (2.0, 0)


def test_with_one_source_another_mode_stands_in_and_repeats():
    summaries = summarise(cells([1.0], "BART", "com", sources=1) + cells([1.0], "BART", "loc", sources=1)
                          + cells([2.0], "BART", "com"))
    one = BART._replace(sources=1)
    assert find(summaries, one._replace(mode="agg")).group == one
    assert find(summaries, BART._replace(mode="agg")) is None
    assert repeats(summaries, one._replace(mode="loc"))
    assert not repeats(summaries, one)
    assert not repeats(summaries, BART)


def test_order_is_fedci_the_papers_baselines_unknown_methods_the_limit():
    methods = ["oracle", "Zebra", "BART-T", "BART", "FedCI (paper)", "FedCI"]
    summaries = summarise([cell(method, "com", pehe=1.0) for method in methods])
    assert [method for method, _ in rows_of(select(summaries, dataset="data-1"))] == [
        "FedCI", "FedCI (paper)", "BART", "BART-T", "Zebra", "oracle"]


def test_a_variation_follows_its_data_set():
    summaries = summarise([cell(pehe=1.0, dataset=name) for name in ("new", "null", "data-1/std", "data-2", "data-1")])
    assert [group.dataset for group in summaries] == ["data-1", "data-1/std", "data-2", "null", "new"]
