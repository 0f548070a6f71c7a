"""Each draw sees a completed copy of its own."""

import numpy as np

from fedci.model.completion import copies
from support.gaps import DRAWN, opened, sources
from tests_support import study


def test_each_draw_sees_a_copy_of_its_own_and_nobody_who_lacks_nothing_is_changed():
    talk, contract, known, _ = opened(study(**DRAWN), sources())
    assert len(known.laws) == copies(contract.options)
    for number in range(3):
        site = talk.engine.local[f"site-{number}"]
        ready, x = site.run.prepared, site.run.table.x
        whole = ~np.isnan(x).any(1)
        assert ready.own.shape == (len(known.laws), *x.shape)
        np.testing.assert_array_equal(ready.own[:, whole] - ready.units.filled(x[whole])[None], 0.0)
        of_draws = ready.rows.local(ready.model, None, 6, False)
        for draw in range(6):
            copy = np.asarray(ready.rows.copy(draw).x)
            np.testing.assert_array_equal(np.asarray(of_draws.x)[draw], copy)
            np.testing.assert_array_equal(copy[:len(x)], ready.own[draw % len(known.laws)])
