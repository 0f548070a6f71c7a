"""Rounds of `default` from where `few` ends: what the table says, and that nothing of it stays."""

from contextlib import suppress

import numpy as np

from fedci.benchmark.cost import few_start
from fedci.benchmark.cost.few_start import Cell
from fedci.model.shared import shared_family
from fedci.model.shared.shared_family import SharedFamily


def test_the_table_has_ratios_and_what_is_lost_at_most():
    done = [Cell("Steps", r, 1.0, ratio, -5.0, -5.0 + above, 100, 40, 3_000_000, 1_000_000)
            for r, ratio, above in ((0, 1.5, -2.0), (1, 0.5, 1.0))]
    assert few_start.table(done).splitlines()[2] == "| Steps | 2 | 1.00, 1.50 | -0.5, -2.0 | 100 / 40 | 3.00 / 1.00 |"


def test_other_fits_begin_as_they_did():
    start, plain = SharedFamily.start, shared_family.PLAIN
    with suppress(KeyboardInterrupt), few_start.beginning(np.zeros(2)):
        assert SharedFamily.start is not start
        assert not shared_family.PLAIN
        raise KeyboardInterrupt
    assert SharedFamily.start is start
    assert plain == shared_family.PLAIN
