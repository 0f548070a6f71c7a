"""Coordinator, sites and the seam between them."""

import numpy as np
import pytest

from fedci import FedCI, Source
from fedci.errors import FedciError
from fedci.model.paper import elbo
from tests_support import STANDARD_OTHERWISE, fit, frame, hospitals, study


def assert_same_study(one, two, rtol=0.0):
    np.testing.assert_allclose(one.outcome.fit.theta, two.outcome.fit.theta, rtol=rtol, atol=rtol)
    for site in (None, *one.sites):
        np.testing.assert_allclose(one.ate(site).mean, two.ate(site).mean, rtol=rtol)
        np.testing.assert_allclose(one.ate(site).sd, two.ate(site).sd, rtol=rtol)


@pytest.fixture
def result(classic):
    return classic


def test_the_same_seed_gives_the_same_bits(result):
    assert_same_study(result, fit(hospitals(40, 37)))


def test_another_seed_moves_the_draws_only_a_little(result):
    other = fit(hospitals(40, 37), seed=1)
    assert other.outcome.fit.theta.tobytes() != result.outcome.fit.theta.tobytes()
    assert abs(other.ate().mean - result.ate().mean) < 0.2 * result.ate().sd


def test_the_order_of_the_sites_does_not_matter(result):
    assert_same_study(result, fit(hospitals(40, 37)[::-1]))


def test_every_preset_and_optimiser_runs():
    few = {"rounds": 3, "fresh_draws": False}
    for name in ("ascent", "adam", "adagrad", "lbfgs"):
        result = fit(hospitals(40, 37), options={"optimiser": {"name": name, "learning_rate": 1e-4, **few}})
        assert len(result.outcome.fit.rounds) == 3
        assert result.verdict == "stopped at the cap"
        assert any("stopped at the cap" in text for text in result.warnings())
    paper = fit(hospitals(40, 37), preset="paper", options={"optimiser": {"rounds": 3}})
    assert paper.outcome.options.model.mean.kind == "network"
    assert np.isfinite(paper.ate().mean)


def test_the_objective_rises_to_convergence(result):
    objectives = [r.objective for r in result.outcome.fit.rounds]
    assert result.verdict == "converged"
    assert result.outcome.fit.objective == max(objectives) > objectives[0]


def test_sites_of_one_size_class_share_a_compilation(monkeypatch):
    """33 to 40 rows are one class: two sites trace the site's term once, one of 20 rows once more."""
    traces = []
    original = elbo.site_term
    monkeypatch.setattr(elbo, "site_term", lambda *args: traces.append(1) or original(*args))
    unseen = {"model": {"jitter": 1.25e-10}, "optimiser": {"rounds": 4}}
    fit(hospitals(40, 37), options=unseen)
    assert len(traces) == 1
    fit(hospitals(39, 20), options=unseen)
    assert len(traces) == 2


def test_bytes_are_counted(result):
    for seen in result.traffic.values():
        # hello, columns, means, spreads, description, prepare, begin, effects
        assert seen.messages == len(result.outcome.fit.rounds) + 8
        assert seen.sent > 0
        assert seen.received > 0


def test_a_column_constant_everywhere_is_named():
    frames = [frame(36, s).assign(bmi=20.0) for s in (0, 1)]
    with pytest.raises(FedciError, match="'bmi' is constant at all 2 sites"):
        fit([Source("a", frames[0]), Source("b", frames[1])])


def test_a_column_constant_at_one_site_is_not_an_error():
    result = fit([Source("a", frame(36, 0).assign(bmi=20.0)), Source("b", frame(36, 1))])
    assert np.isfinite(result.ate().mean)
    assert any("bmi" in text for text in result.warnings())


def test_repeated_rows_are_survived():
    """Repeated people make K singular; noise keeps C invertible, and the jitter's ladder is there for the rest."""
    twice = frame(20, 0)
    doubled = np.tile(np.arange(20), 2)
    result = fit([Source("a", twice.iloc[doubled]), Source("b", frame(36, 1))])
    assert np.isfinite(result.ate().sd)


def test_standard_policy_rounds_moments_and_keeps_small_cells_at_the_sites():
    plan = study(policy={**STANDARD_OTHERWISE, "max_rounds": 5}, options={"optimiser": {"rounds": 5}})
    rare = [frame(100, s).assign(sex=lambda f: (np.arange(100) < 4).astype(int)) for s in (0, 1, 2)]
    result = FedCI(plan).fit([Source(name, rows) for name, rows in zip("abc", rare, strict=True)])
    layout = result.outcome.layout
    assert list(layout.withheld) == [False, False, True]
    assert layout.scales.x_sd[2] == np.inf
    assert not layout.columns.values[:, 2].any()
    assert layout.columns.count[2] == 0
    told = layout.u.reshape(3, -1, 4)
    assert not told[:, 4].any()  # y(0), y(1), age, bmi, sex
    rounded = told[:, :, [0, 2, 3]]  # of the variance its root is taken
    assert all(float(f"{v:.4g}") == v for v in rounded.ravel())
    assert any("column 'sex' is left out at all sites" in text for text in result.warnings())
    assert np.isfinite(result.ate().mean)


def test_everybody_has_the_same_value_of_a_withheld_column():
    """So it cannot matter what anybody holds in it."""
    plan = study(policy={"name": "simulation", "min_cell": 10}, options={"optimiser": {"rounds": 3}})
    frames = [frame(40, s).assign(sex=(np.arange(40) < 2).astype(int)) for s in (0, 1)]
    one, two = (FedCI(plan).fit([Source("a", first), Source("b", frames[1])])
                for first in (frames[0], frames[0].assign(sex=frames[0].sex[::-1].to_numpy())))
    assert_same_study(one, two)
