"""The page of what privacy costs: from its cells alone, over the same replications, and again to the same bytes."""

import numpy as np
import pytest

from fedci.benchmark.cost import kept
from fedci.benchmark.cost.standard_cost import SIMULATION, STANDARD, STROKE_TRIAL, WAYS, Cell
from fedci.benchmark.pages import privacy_page
from fedci.errors import UsageError

PAGE = f"# Privacy\n\n{privacy_page.BEGIN}\nold\n{privacy_page.END}\n\nAfter.\n"


def cell(data, replication, way, error, average=2.0):
    truth = np.nan if data == STROKE_TRIAL else 1.0
    return Cell(data, replication, *way, 5, 1000, error * truth, error * truth, error * truth, average, error, 0.9, 1,
                0.25, 1.0)


def every(data, replication, size):
    """Errors grow with 1 + s and 1 + δ; of `simulation` they are half as large."""
    return [cell(data, replication, way, size * (0.5 if way == SIMULATION else (1 + way.s) * (1 + way.delta)))
            for way in WAYS]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path


def write(folder, cells):
    for one in cells:
        kept.add(folder / "standard.csv", one)
    privacy_page.write(folder, folder / "page.md")
    return (folder / "page.md").read_text()


def test_the_page_says_what_the_cells_say(folder):
    text = write(folder, [*every("DATA-1", 0, 1.0), *every("DATA-1", 1, 3.0)])
    assert text.startswith("# Privacy\n\n")
    assert text.endswith("\n\nAfter.\n")
    assert "old" not in text
    assert "| DATA-1 | 5 sites, 1,000 | `simulation` | 2 | 1 | 1 | 1 | 1 | 2 of 2 | 0.90 | 1 | 0.25 |" in text
    assert "| **`standard`**: both | 2 | 3.3 (× 3.30) | 3.3 (× 3.30) | 3.3 (× 3.30) | 3.3 (× 3.30) |" in text
    assert {path.stem for path in (folder / "figures").glob("*.svg")} == {
        "privacy-noise-on-sums", "privacy-noise-on-outcomes"}
    before = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    assert write(folder, []) == text
    assert {path.name: path.read_bytes() for path in (folder / "figures").iterdir()} == before


def test_a_ratio_is_over_the_replications_that_both_have(folder):
    alone = [one for one in every("DATA-1", 1, 30.0) if privacy_page.way(one) != SIMULATION]
    text = write(folder, [*every("DATA-1", 0, 1.0), *alone])
    assert "| **`standard`**: both | 2 | 25.6 (× 3.30) |" in text
    assert "| `simulation` | 1 | 0.5 |" in text


def test_of_the_trial_the_average_has_moved(folder):
    text = write(folder, [cell(STROKE_TRIAL, 0, SIMULATION, 0.5), cell(STROKE_TRIAL, 0, STANDARD, 0.6, 2.1)])
    assert "| `simulation` | 1 | – | – | 2 itself | 0.5 | – | 0.90 |" in text
    assert "| **`standard`**: both | 1 | – | – | 2.1 itself, +0.20 sd | 0.6 (× 1.20) | – | 0.90 |" in text
    assert not (folder / "figures").exists()


def test_curves_are_ratios_to_the_least_noise():
    cells = [*every("DATA-1", 0, 1.0), *every("DATA-1", 1, 3.0)]
    (name, places, values), = privacy_page.along(cells, "pehe", privacy_page.on_sums)
    assert (name, places) == ("DATA-1", [0.0, 0.25, 0.5, 1.0])
    np.testing.assert_allclose(values, [1.0, 1.25, 1.5, 2.0], rtol=2e-4)  # s = 0 is 1e-4
    (_, places, values), = privacy_page.along(cells, "pehe", privacy_page.on_outcomes)
    np.testing.assert_allclose(values, 1 + np.array(places), rtol=1e-12)  # rounding


def test_without_cells_or_marks_it_says_what_is_needed(folder):
    with pytest.raises(UsageError, match="needs standard.csv"):
        privacy_page.write(folder, folder / "page.md")
