"""What is told of columns: sums over people by brute force, and of columns in which few stand apart, nothing."""

import numpy as np
import pandas as pd
import pytest

from fedci import Source
from fedci.errors import DisclosureError
from fedci.protocol import course
from fedci.protocol.course import Contract
from fedci.site import describing
from fedci.site.site import Site
from support.asked import came_to, greeting
from tests_support import frame, study

SITES = ("a", "b", "c")
STAYS = {"withheld": np.zeros(3, bool)}


def greeted(rows: pd.DataFrame, name="a", **changes) -> Site:
    agreed = study(**changes)
    site = Site(agreed, Source(name, rows).read(agreed))
    site.answer(greeting(agreed, name, sites=SITES))
    return site


def part(kind, site, arrays):
    return kind(site.party, site.run, arrays)


def cells(least: int) -> dict:
    return {"name": "simulation", "min_cell": least}


# --- which columns stay


def test_a_column_in_which_few_of_an_arm_stand_apart_is_withheld_and_said_so_beforehand():
    rows = frame(60, 0).assign(w=np.arange(60) % 2)
    for apart, withheld in ((6, 1), (20, 0)):  # three of each arm, and ten
        told = part(describing.columns, greeted(rows.assign(sex=(rows.index < apart) + 0), policy=cells(5)), {}).sums
        np.testing.assert_array_equal(told["withheld"], [0, 0, withheld])
        np.testing.assert_array_equal(told["varies"], [1, 1, 1])


def test_gaps_are_told_where_there_are_many_and_only_counted_as_present_where_few():
    rows = frame(60, 0).assign(w=np.arange(60) % 2)
    rows.loc[:1, "age"], rows.loc[:19, "bmi"] = np.nan, np.nan
    site = greeted(rows, policy=cells(5), missing="impute")
    told = part(describing.columns, site, {}).sums
    np.testing.assert_array_equal(told["incomplete"], [1, 1, 0])
    np.testing.assert_array_equal(told["gaps_withheld"], [1, 0, 0])
    np.testing.assert_array_equal(part(describing.means, site, STAYS).sums["count"], [60, 40, 60])


def test_an_outcome_of_two_values_with_a_small_cell_is_refused():
    rows = frame(60, 0).assign(w=np.arange(60) % 2)
    many = greeted(rows.assign(y=(rows.index < 20) + 1.0), policy=cells(5))
    assert not part(describing.columns, many, {}).sums["withheld"].any()
    for events in (6, 57):
        few = greeted(rows.assign(y=(rows.index < events) + 1.0), policy=cells(5))
        with pytest.raises(DisclosureError, match="than the policy's min_cell hold one of the outcome's two values"):
            part(describing.columns, few, {})


def test_a_small_outcome_is_looked_for_before_noise_flips_it():
    """Six have the event, and with the site's noise on outcomes some twenty seem to: they are six all the same."""
    rows = frame(60, 0).assign(w=np.arange(60) % 2)
    few = greeted(rows.assign(y=(rows.index < 6) + 1.0), policy=cells(5) | {"outcome_noise": 1.0})
    assert np.sum(few.run.table.y > few.run.table.y.mean()) >= 10
    with pytest.raises(DisclosureError, match="than the policy's min_cell hold one of the outcome's two values"):
        part(describing.columns, few, {})


# --- sums


def test_means_and_spreads_are_sums_over_people():
    site, centre = greeted(frame(40, 0)), np.array([50.0, 20.0, 0.25])
    t, told = site.run.table, part(describing.means, site, STAYS)
    np.testing.assert_allclose(told.sums["total"], t.x.sum(0), rtol=1e-12)
    np.testing.assert_array_equal(told.sums["count"], [40, 40, 40])
    np.testing.assert_array_equal(told.sums["y_count"], [np.sum(t.w == 0), np.sum(t.w == 1)])
    np.testing.assert_allclose(told.sums["y_total"], [t.y[t.w == 0].sum(), t.y[t.w == 1].sum()], rtol=1e-12)
    np.testing.assert_array_equal(told.own["people"], [40, t.w.sum()])
    spread = part(describing.spreads, site, STAYS | {"x_mean": centre, "y_mean": np.array(3.0)}).sums
    np.testing.assert_allclose(spread["square"], ((t.x - centre) ** 2).sum(0), rtol=1e-12)
    np.testing.assert_allclose(spread["y_square"], ((t.y - 3.0) ** 2).sum(), rtol=1e-12)


def test_of_a_withheld_column_nothing_is_summed():
    site, away = greeted(frame(40, 0)), {"withheld": np.array([False, True, False])}
    told = part(describing.means, site, away).sums
    assert (told["count"][1], told["total"][1]) == (0, 0)
    spread = part(describing.spreads, site, away | {"x_mean": np.zeros(3), "y_mean": np.array(0.0)}).sums
    assert spread["square"][1] == 0
    assert spread["square"][[0, 2]].all()


def test_no_sum_has_a_coordinate_of_a_site():
    """Shapes are the same however many sites there are; which site tells cannot be seen in them."""
    shapes = []
    for sites in (("a", "b"), SITES):
        site = greeted(frame(40, 0))
        site.answer(greeting(site.party.agreed, sites=sites, run=f"of-{len(sites)}"))
        told = [part(kind, site, STAYS | {"x_mean": np.zeros(3), "y_mean": np.array(0.0)}).sums
                for kind in (describing.columns, describing.means, describing.spreads)]
        shapes.append([{name: array.shape for name, array in sums.items()} for sums in told])
    assert shapes[0] == shapes[1]


def test_sums_over_sites_lead_to_the_units_of_all_people_together():
    sites = {name: greeted(frame(40 - s, s), name) for s, name in enumerate(SITES)}
    contract = Contract(sites["a"].party.agreed, SITES)

    def answer(ask):
        kinds = {"AskColumns": describing.columns, "AskMeans": describing.means, "AskSpreads": describing.spreads,
                 "AskDescription": describing.description}
        if ask.name not in kinds:
            return {}
        parts = [part(kinds[ask.name], site, ask.arrays).sums for site in sites.values()]
        return {name: np.asarray(sum(one[name] for one in parts)) for name in parts[0]}

    opened = came_to(course.opening(contract), answer)
    x, y = (np.concatenate([getattr(site.run.table, name) for site in sites.values()]) for name in "xy")
    np.testing.assert_allclose(opened.columns.values[:2], [x.mean(0), x.var(0)], rtol=1e-12)
    np.testing.assert_allclose(opened.outcome, [y.mean(), y.std()], rtol=1e-12)
    np.testing.assert_allclose(opened.scales.x_mean, x.mean(0), rtol=1e-12)
    assert (opened.people, opened.scales.y_sd) == (len(y), opened.outcome[1])


# --- each site's moments, for the model that compares sites by them


def test_a_sites_moments_stand_in_its_own_place_in_model_units_and_to_the_policys_digits():
    site = greeted(frame(39, 1), "b", policy={"name": "simulation", "moment_digits": 4})
    scales = {"x_mean": np.array([60.0, 26.0, 0.5]), "x_sd": np.array([17.0, np.inf, 0.5]), "y_mean": np.array(3.0),
              "y_sd": np.array(1.2), "slots": np.array(3), "columns": np.array(3)}
    told = part(describing.description, site, scales).sums
    assert told["moments"].shape == (3, 4, 6)
    assert not told["moments"][[0, 2]].any()
    assert not told["counts"][[0, 2]].any()
    t, mine = site.run.table, told["moments"][1]
    blocks = [(t.y[t.w == 0] - 3.0) / 1.2, (t.y[t.w == 1] - 3.0) / 1.2, (t.x[:, 0] - 60.0) / 17.0]
    for k, values in enumerate(blocks):
        z = (values - values.mean()) / values.std()
        exact = [values.mean(), values.var(), (z**3).mean(), (z**4).mean() - 3.0]
        np.testing.assert_allclose(mine[:, k], exact, rtol=1e-3)
        assert told["counts"][1, k] == len(values)
    assert not mine[:, 3].any()  # a column that stays at the sites
    assert all(float(f"{v:.4g}") == v for v in mine.ravel())
