"""Clusters: the data that are measured on, and that a fit with them, saved and loaded, says the same."""

import numpy as np

from fedci import FedCI, Result, Source
from fedci.benchmark.cost import clusters
from tests_support import SMALL


def test_schools_are_treated_whole_and_share_what_they_share():
    table = clusters.district(np.random.default_rng(1), shared=3.0)
    assert (table.groupby("school").w.nunique() == 1).all()
    rest = table.y - clusters.EFFECT * table.w - 0.5 * table.age
    assert rest.groupby(table.school).mean().std() > 1.5
    assert rest.groupby(table.school).std().mean() < 1.5


def test_intervals_are_wider_with_clusters_and_a_result_keeps_them(tmp_path):
    sources = [Source(f"d{k}", clusters.district(np.random.default_rng((4, k)), 1.0)) for k in range(2)]
    options = SMALL | {"optimiser": {"rounds": 25, "draws": 4}}
    found = {}
    for clustered in (False, True):
        found[clustered] = FedCI(clusters.study(clustered).changed(options=options)).fit(sources)
    low, high = found[False].ate_interval()
    wide_low, wide_high = found[True].ate_interval()
    assert wide_high - wide_low > 1.2 * (high - low)
    found[True].save(tmp_path / "r")
    again = Result.load(tmp_path / "r")
    here, saved = (result.effect(sources[0].data, site="d0") for result in (found[True], again))
    np.testing.assert_array_equal(here, saved)
    np.testing.assert_array_equal(again.people["d0"].table.cluster, found[True].people["d0"].table.cluster)
