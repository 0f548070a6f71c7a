"""The picture over all data sets: a row each, drawn only where there is one."""

import pytest

from fedci.benchmark.pages import panorama
from fedci.benchmark.pages.standing import standings
from fedci.benchmark.pages.summary import summarise
from support.figures import cells


@pytest.fixture
def both():
    """FedCI ahead on one data set, behind on the other."""
    return standings(summarise(
        cells([1.0, 1.0], coverage=0.9) + cells([2.0, 2.0], "BART", "com", coverage=0.5)
        + cells([2.0, 2.0], dataset="steps") + cells([1.0, 1.0], "BART", "com", dataset="steps")), {})


def test_a_row_for_each_data_set_and_a_mark_for_who_is_ahead(both):
    errors, coverage = panorama.panorama(both).axes
    assert [label.get_text() for label in errors.get_yticklabels()] == ["DATA-1 (3 sources)", "Steps (3 sources)"]
    marked = {bars.lines[0].get_ydata()[0]: (bars.lines[0].get_xdata()[0], bars.lines[0].get_marker())
              for bars in errors.containers}
    assert marked == {0: (0.5, "o"), 1: (2.0, "D")}
    shown = {(line.get_xdata()[0], line.get_marker()) for line in coverage.lines if line.get_marker() in "oD"}
    assert shown == {(0.9, "o")}


def test_nothing_is_drawn_of_nothing(tmp_path, both):
    assert panorama.draw(tmp_path, []) == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "figures").mkdir()
    assert panorama.draw(tmp_path / "figures", both) == [panorama.NAME]
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".svg", ".png"}
