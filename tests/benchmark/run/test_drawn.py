"""People as measurements take them: who is of the study and who is new, and what a method without intervals says."""

import numpy as np

from fedci.benchmark.run.drawn import Drawn, split, without_intervals


def test_the_first_people_of_each_site_are_of_the_study():
    place = np.arange(10)
    every = Drawn(place[:, None], place % 2, place, place + 1.0, np.repeat([0, 1], 5), 1.0 * place)
    study, new = split(every, 3, 2)
    assert study.y.tolist() == [0, 1, 2, 5, 6, 7]
    assert new.y.tolist() == [3, 4, 8, 9]
    assert list(study.frame().columns) == ["x0", "w", "y", "time"]


def test_without_intervals_nothing_is_said_of_them():
    found = without_intervals(np.ones(3), 2.0)
    assert np.isnan(found.low).all()
    assert found.average[0] == 2.0
    assert np.isnan(found.average[1:]).all()
