"""What is scored, by hand."""

import math

import numpy as np
import pytest

from fedci.benchmark.run import protocols
from fedci.benchmark.run.protocols import Answer, Average
from fedci.synthetic.datasets import Sizes, combined, synthetic


def test_figures_of_the_three_protocols_by_hand():
    splits = synthetic("DATA-1", 0, sizes=Sizes(2, 5, 3, 1))
    people = combined([split.test for split in splits])
    cate = np.arange(6.0)
    answers = [Answer(part, (part - 1, part + 1), (part - 9, part + 9), part + 0.5, (part, part + 2))
               for part in np.split(cate, 2)]
    found = protocols.scores(answers, splits, [Average(1.0, 3.0, 2.0), Average(-1.0, 1.0, 2.0)])
    realised = people.y1 - people.y0
    for protocol, point, truth, low, high in (("P1", cate + 0.5, realised, cate, cate + 2),
                                              ("P2", cate, people.cate, cate - 1, cate + 1),
                                              ("P3", cate, realised, cate - 9, cate + 9)):
        figures = found[protocol]
        assert figures["pehe"] == pytest.approx(math.sqrt(sum((point - truth) ** 2) / 6))
        assert figures["ate_error"] == pytest.approx(abs(sum(point) / 6 - sum(truth) / 6))
        assert figures["coverage"] == pytest.approx(sum((low <= truth) & (truth <= high)) / 6)
        assert figures["width"] == pytest.approx(sum(high - low) / 6)
    assert (found["P2"]["ate_covered"], found["P2"]["ate_width"], found["P2"]["ate_rejects"]) == (0.5, 2.0, 0.5)
    assert "ate_covered" not in found["P3"]
