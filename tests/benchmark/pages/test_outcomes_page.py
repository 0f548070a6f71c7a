"""The page of outcomes that are no numbers, by hand; and that it is the one of the cells on disk."""

from pathlib import Path

import numpy as np

from fedci.benchmark.pages import outcomes_page
from fedci.benchmark.run import breast, stroke
from fedci.benchmark.run.outcome_grid import Cell

RESULTS, PAGE = Path("benchmarks/results/outcomes"), Path("docs/benchmarks/outcomes.md")


def cell(method: str, replication: int, pehe: float, error: float = 0.0, covered: float = np.nan) -> Cell:
    return Cell("binary", "index", 100, replication, method, 0.5, pehe, covered, 0.4, error, covered, 0.2, 0.1, 9.0)


def test_a_peer_stands_beside_the_same_replications():
    cells = [cell("FedCI", 0, 0.1, 0.02, 1.0), cell("FedCI", 1, 0.3, 0.04, 0.0), cell("probit BART", 1, 0.5)]
    lines = outcomes_page.page(cells, [], []).splitlines()
    assert "| index | 100 | FedCI | 2 | 0.200 | – | 0.50 | 0.40 | 0.030 ± 0.010 | 1 of 2 | 9 |" in lines
    assert "| index | 100 | probit BART | 1 | 0.500 | 0.300 | – | 0.40 | 0.000 | – | 9 |" in lines
    assert not any(line.startswith("## Counts") for line in lines)


def test_the_trial_says_in_how_many_the_interval_holds_its_answer():
    made = [stroke.Cell("death14", seed, "IPW", 0, 14, 9000, 0.01 * seed, 0.01 * seed - 0.015, 0.02, -0.004, 0.004, 5.0)
            for seed in (0, 1, 2)]
    text = outcomes_page.page([], made, [breast.Cell("FedCI", "both", 5.0, 2232, 0.1, 0.05, 0.15, 60.0)])
    assert "| death within 14 days | thinned | 9,000 | IPW | -0.40 (0.40) | 1.00 | -0.50 to 2.00 | 2 of 3 | 5 |" in text
    assert "| 5 years | both | 2,232 | FedCI | 10.0 | 5.0 to 15.0 |" in text


def test_cells_from_several_places_become_one_folder_once_each(tmp_path):
    for place, pehe in (("one", 0.1), ("other", 0.2)):
        outcomes_page.kept_in(tmp_path / place, [cell("FedCI", 0, pehe), cell(place, 1, pehe)])
    for _ in range(2):
        outcomes_page.gathered([tmp_path / "one", tmp_path / "other"], tmp_path / "all")
    assert [one.method for one in outcomes_page.read(tmp_path / "all")[0]] == ["FedCI", "one", "other"]


def test_the_page_is_that_of_the_cells_on_disk():
    assert outcomes_page.page(*outcomes_page.read(RESULTS)) == PAGE.read_text(encoding="utf-8")
