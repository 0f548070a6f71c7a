"""The front page of the benchmarks, by hand."""

from fedci.benchmark.pages import archive, front
from fedci.benchmark.pages.standing import standings
from fedci.benchmark.pages.summary import summarise
from support.figures import cells
from support.pages import section


def front_page(rows, coverage=(), runs=()):
    results = archive.Archive(summarise(rows), [], runs)
    return front.page(results, standings(results.summaries, summarise(coverage)), [], "benchmarks")


def test_a_row_of_the_table_is_over_common_replications_at_the_greatest_number_of_sources():
    """The best peer is the one with the greatest FedCI ÷ peer: CEVAE, on two of three replications."""
    text = front_page(cells([1.0, 2.0, 9.0], coverage=0.9) + cells([9.0], sources=1)
                      + cells([1.0], "BART", "com", sources=1)
                      + cells([4.0, 8.0, 36.0], "BART", "com", coverage=0.5) + cells([2.0, 4.0], "CEVAE", "com"))
    assert ("| [DATA-1](benchmarks/data-1.md) | **0.50 ± 0.00** | 0.90 [3] | CEVAE | 3.00 ± 1.00 | 1.50 ± 0.50 | "
            "2 of 2 | – | 3 |\n") in text
    assert "which privacy forbids: BART, CEVAE.\n" in text


def test_coverage_is_that_of_the_most_replications():
    rows = cells([1.0, 1.0], coverage=0.9) + cells([2.0, 2.0], "BART", "com", coverage=0.5)
    assert "| 0.80 [3] | BART |" in front_page(rows, cells([1.0] * 3, coverage=0.8))
    assert "| 0.90 [2] | BART |" in front_page(rows, cells([1.0], coverage=0.8))


def test_where_fedci_loses_is_said_plainly_the_worst_first():
    text = front_page(cells([1.5, 1.5], ate_error=0.1) + cells([1.0, 1.0], "BART", "com", ate_error=0.2)
                      + cells([3.0, 3.0], "BCF", "com", ate_error=0.05)
                      + cells([2.0, 2.0], dataset="steps") + cells([1.0, 1.0], "BART", "com", dataset="steps")
                      + cells([1.0, 1.0], dataset="linear") + cells([2.0, 2.0], "BART", "com", dataset="linear"))
    shown = section(text, "Where FedCI loses")
    assert [line for line in shown.splitlines() if line.startswith("- ")] == [
        "- **Steps** (outcome and effect jump, as a tree would have it): 2.00 where BART has 1.00, 100% more. Better "
        "than FedCI: 1 of 1 peers, by ATE error 0 of 0.",
        "- **DATA-1** (the paper's first simulation: 20 covariates, softplus outcomes, five sources, 50 rows each to "
        "fit on): 1.50 where BART has 1.00, 50% more. Better than FedCI: 1 of 2 peers, by ATE error 1 of 2."]
    assert "FedCI is behind on: Steps.\n" in shown
    assert "- On no data set.\n" in front_page(cells([1.0]) + cells([2.0], "BART", "com"))


def test_what_is_near_and_what_the_intervals_miss_is_said_too():
    text = front_page(cells([1.0, 3.0], coverage=0.90) + cells([2.2, 2.2], "BART", "com")
                      + cells([1.0, 1.0], dataset="linear", coverage=0.98)
                      + cells([2.0, 2.0], "BART", "com", dataset="linear")
                      + cells([1.0, 1.0], dataset="null", coverage=0.95, ate_rejects=0.5)
                      + cells([2.0, 2.0], "BART", "com", dataset="null"))
    assert "by less than two standard errors: DATA-1 (BART).\n" in text
    assert "(below 0.93): DATA-1 (0.90); more often than they claim (above 0.97: wider than they need be): " \
           "Linear (0.98).\n" in text
    assert "leaves 0 out in 1 of 2 replications of No effect; it may in 5% " in text


def test_what_other_authors_printed_stands_beside():
    text = front_page(cells([1.0, 1.2], dataset="ihdp-causalrff") + cells([2.0, 2.0], "BART", "com",
                                                                          dataset="ihdp-causalrff"))
    assert "√PEHE. IHDP, as CausalRFF cut it, 3 sources: CausalRFF 1.2 ± 0.18, FedCI 1.10 ± 0.10.\n" in text
    assert "other authors" not in front_page(cells([1.0]) + cells([2.0], "BART", "com"))


def test_costs_are_those_of_the_fits_beside_the_best_peers():
    cost = {"seconds": 2.0, "rounds": 40.0, "bytes": 3e6}
    rows = cells([1.0], **cost) + cells([2.0], "BART", "com", seconds=11.0)
    text = section(front_page(rows, runs=[{"cores": 2}, {"cores": 2}]), "What it costs")
    assert "| DATA-1 | 3 | 2.00 | 40 | 3.00 | BART | 11.0 |\n" in text
    assert "one machine of 2 cores and" in text
    assert "The presets" not in text
    more = cells([4.0], "FedCI (classic)", **cost) + cells([5.0], "FedCI (paper)", **cost)
    text = section(front_page(rows + more, runs=[{"cores": 2}, {}]), "What it costs")
    assert "FedCI (paper): 2.00 s, 40 rounds, 3.00 MB, √PEHE 5.00 ([presets](presets.md)).\n" in text
    assert "one machine and" in text


def test_the_page_says_of_which_version_its_figures_are_where_it_is_not_this_one():
    from fedci.version import __version__

    assert front._made([]) == front._made([{"versions": {"fedci": __version__}}]) == ""
    assert "those of fedci 0.1.0**, not of this version" in front._made([{"versions": {"fedci": "0.1.0"}}])
    assert front._made([{"versions": {"fedci": f"{__version__}.dev0"}}]) == ""
