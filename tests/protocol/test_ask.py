"""One thing asked of all sites: the same for all, but for each site's own part of g."""

import numpy as np

from fedci.model.family import Ask
from fedci.protocol.ask import request_of, sizes
from fedci.protocol.requests import REQUESTS


def test_every_site_is_asked_alike():
    arrays = {"theta": np.arange(3.0), "phi_roots": np.ones((2, 2, 2)), "sigma_roots": np.ones((2, 2, 2))}
    one, two = (request_of(Ask("Evaluate", arrays), ("run", 4, site), s, {}) for s, site in enumerate(("lyon", "oslo")))
    assert (one.site, two.site, one.round) == ("lyon", "oslo", 4)
    for name in arrays:
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes() == arrays[name].tobytes()


def test_each_site_gets_its_own_part_of_g():
    g = np.arange(12.0).reshape(2, 3, 2)
    roots = np.ones((2, 2, 2))
    ask = Ask("AskEffects", {"theta": np.zeros(1), "phi_roots": roots, "sigma_roots": roots, "g": g,
                             "correlations": np.zeros(1)})
    for s in range(3):
        np.testing.assert_array_equal(request_of(ask, ("run", 1, "x"), s, {}).g, g[:, s])


def test_sums_of_the_exchange_before_travel_with_the_next():
    told = {"gradient": np.arange(2.0)}
    arrays = {"theta": np.arange(3.0), "phi_roots": np.ones((1, 2, 2)), "sigma_roots": np.ones((1, 2, 2))}
    assert request_of(Ask("Evaluate", arrays), ("run", 1, "x"), 0, told).previous == told


def test_a_diagnostic_is_the_same_for_all_and_has_the_shapes_of_its_arrays():
    ask = Ask("AskDiagnostic.propensity", {"coefficients": np.zeros(5)})
    assert request_of(ask, ("run", 2, "a"), 0, {}).kind == "propensity"
    assert REQUESTS[ask.name].summed_shapes(sizes(ask.arrays)) == {"log_likelihood": (), "gradient": (5,),
                                                                  "hessian": (5, 5)}
    assert REQUESTS["AskDiagnostic.outcome"].summed_shapes(sizes({"edges": np.zeros(9)}))["bins"] == (10, 4)
