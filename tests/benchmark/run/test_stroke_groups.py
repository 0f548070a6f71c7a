"""The stroke trial's subgroups: sites by country, and the plain difference of each group beside its effect."""

import numpy as np
import pandas as pd

from fedci.benchmark.run import stroke_groups
from fedci.result.subgroup_effects import Subgroups

ROWS = pd.DataFrame({
    "country": ["uk", "ital", "pola"] * 40, "aspirin": np.arange(120) % 2, "dependent": [1, 0, 1, np.nan] * 30,
    "age": np.arange(120) % 40 + 50.0, "pressure": 150.0, "delay": 10.0,
    **{name: np.arange(120) // 3 % 2 for name in stroke_groups.BINARY}})


def test_sites_are_groups_of_countries_of_people_whose_six_months_are_known():
    sites = stroke_groups.people(ROWS, 0)
    assert {name: len(part) for name, part in sites.items()} == {"italy": 30, "others": 30, "uk": 30}
    assert sum(map(len, stroke_groups.people(ROWS, 50).values())) == 50
    assert stroke_groups.study().design.randomised


def test_a_group_stands_beside_the_difference_of_its_arms():
    sites = stroke_groups.people(ROWS, 0)
    group = stroke_groups.study().groups[1]
    found = Subgroups(groups=(group,), untold=(), people=np.array([45]), sites=np.array([3]),
                      levels=np.full((4, 2, 1), 0.5), cov=np.zeros((1, 1)))

    class Made:
        groups = found
        subgroups = staticmethod(found.table)

    every = pd.concat(sites.values())
    own = every[every.female == 1]
    plain = 100 * (own.dependent[own.aspirin == 1].mean() - own.dependent[own.aspirin == 0].mean())
    line = stroke_groups.table(Made(), sites).splitlines()[-1]
    assert line.startswith("| female = 1 | 45 | 0.0 (0.0 to 0.0) |")
    assert f"| {plain:.1f} ± " in line
