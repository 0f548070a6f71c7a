"""How often effects are said to differ: what is counted, and data in which they do not."""

import json

import numpy as np
import pytest

from fedci.benchmark.cost import sameness_power
from fedci.benchmark.cost.sameness_power import Cell
from fedci.synthetic import datasets
from fedci.synthetic.datasets import Sizes

SIZES = Sizes(sources=2, train=12, test=5, validation=5)


def test_the_same_effect_is_the_same_for_everybody_and_nothing_else_changes():
    made, other = sameness_power.constant(0, SIZES), datasets.interactions(0, sizes=SIZES)
    for split, before in zip(made, other, strict=True):
        np.testing.assert_allclose(split.train.cate, sameness_power.SAME)
        untreated = split.train.w == 0
        np.testing.assert_array_equal(split.train.y[untreated], before.train.y[untreated])
        np.testing.assert_array_equal(split.train.x, before.train.x)
        np.testing.assert_allclose(split.train.y1 - split.train.mu1, before.train.y1 - before.train.mu1, atol=1e-12)


def test_fits_that_are_there_are_not_made_again_and_the_table_counts_them(tmp_path, monkeypatch, capsys):
    made = []
    monkeypatch.setattr(sameness_power, "probability", lambda splits, seed: made.append(seed) or 0.01)
    monkeypatch.setattr(sameness_power, "SETS", {"Steps": sameness_power.SETS["Steps"]})
    out = tmp_path / "cells.jsonl"
    out.write_text(json.dumps(Cell("Steps", 12, 0, 0.5)._asdict()) + "\n")
    sameness_power.main(["--replications", "3", "--rows", "12", "--out", str(out)])
    assert made == [1, 2]
    assert len(out.read_text().splitlines()) == 3
    assert "| Steps | 2 of 3 | 0.01 |" in capsys.readouterr().out


@pytest.mark.parametrize("data", [*sameness_power.SETS])
def test_every_data_set_has_five_sites_of_the_size_asked_for(data):
    splits = sameness_power.SETS[data](0, Sizes(train=12))
    assert [len(split.train) for split in splits] == [12] * 5
