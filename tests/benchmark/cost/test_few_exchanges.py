"""The preset `few` beside `default`: what its table says, and that few exchanges give what many rounds give."""

import json

import pytest

from fedci.benchmark.cost import few_exchanges
from fedci.benchmark.cost.few_exchanges import ALL, Cell
from fedci.synthetic.datasets import Sizes


def test_fits_that_are_there_are_not_made_again_and_the_table_has_them(tmp_path, monkeypatch, capsys):
    made = []

    def fitted(data, splits, replication, preset):
        made.append((replication, preset))
        return Cell(data, replication, preset, 1.5, 0.9, 8, 100, -1.0)

    monkeypatch.setattr(few_exchanges, "fitted", fitted)
    out = tmp_path / "cells.jsonl"
    out.write_text(json.dumps(Cell("Steps", 0, "default", 1.0, 0.8, 88, 4000, -2.0)._asdict()) + "\n")
    few_exchanges.main(["--replications", "1", "--rows", "12", "--data", "Steps", "--out", str(out)])
    assert made == [(0, "few")]
    assert ("| Steps | 1 | 1.000 (0.800) | 1.500 (0.900) | 1.50 | 1.50 | 88 / 8 | 40.0 × fewer | nan / nan |"
            in capsys.readouterr().out)


def test_a_replication_of_one_preset_alone_is_in_no_row():
    alone = [Cell("Steps", 0, "default", 1.0, 0.8, 88, 4000, -2.0), Cell("Linear", 0, "few", 1.0, 0.8, 8, 100, -2.0)]
    both = [*alone, Cell("Steps", 1, "default", 2.0, 0.9, 90, 4000, -2.0, 40.0),
            Cell("Steps", 1, "few", 3.0, 0.7, 8, 100, -2.0, 2.0)]
    assert len(few_exchanges.table(alone).splitlines()) == 2
    assert few_exchanges.table(both).splitlines()[2:] == [
        "| Steps | 1 | 2.000 (0.900) | 3.000 (0.700) | 1.50 | 1.50 | 90 / 8 | 40.0 × fewer | 40 / 2 |"]


@pytest.mark.slow
def test_few_exchanges_come_near_the_preset():
    """The aim of few exchanges is 1.1 times its error; on one replication chance moves either by some 5 %."""
    splits = ALL["DATA-1"](0, Sizes())
    rounds, few = (few_exchanges.fitted("DATA-1", splits, 0, preset) for preset in few_exchanges.PRESETS)
    assert few.pehe < 1.2 * rounds.pehe
    assert few.coverage > 0.9
    assert few.exchanges == 8
    assert 10 * few.numbers < rounds.numbers
