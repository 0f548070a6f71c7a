"""Outcomes as they come: arms and sites without an event, one event in all, ties, times of 0, all events at one time,
counts of next to none and of one huge, exposures from hours to years. Three sites of 60 people; what is found is near
what a table of all rows says, and no interval is broken."""

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI, Result, Source, Study

SITES = ("lyon", "oslo", "turin")
FEW = {"model": {"directions": 1, "knots": 3, "landmarks": 4, "inducing": 16}, "optimiser": {"rounds": 30, "draws": 4},
       "prediction": {"draws": 64}}
BINARY = {"name": "died", "type": "binary"}
TIMED = {"time": "days", "event": "died", "type": "survival", "horizons": [2.0, 6.0]}
COUNTED = {"name": "falls", "type": "count", "exposure": "years"}


def table(number: int) -> pd.DataFrame:
    rng = np.random.default_rng((57, number))
    age, w = rng.normal(size=60), np.arange(60) % 2
    event, end = rng.exponential(6.0 * np.exp(0.8 * w - 0.3 * age)), rng.uniform(1.0, 12.0, 60)
    years = rng.uniform(0.5, 2.0, 60)
    return pd.DataFrame({"age": age, "drug": w, "days": np.minimum(event, end), "died": (event <= end).astype(int),
                         "years": years, "falls": rng.poisson(years * np.exp(0.6 - 0.7 * w + 0.3 * age))})


def fitted(outcome, change) -> tuple[Result, pd.DataFrame]:
    """(the result, all rows): `change` makes a site's table, from its number too."""
    rows = {site: change(table(number), number) for number, site in enumerate(SITES)}
    study = Study(treatment="drug", outcome=outcome, covariates=["age"], policy="simulation", options=FEW)
    return FedCI(study).fit([Source(site, own) for site, own in rows.items()]), pd.concat(rows.values())


def check_whole(found) -> None:
    """Of risks or rates: nothing is missing or out of order."""
    for effect in (found.of_untreated, found.of_treated, found.difference, found.ratio):
        low, high = effect.interval()
        assert np.isfinite([low, effect.mean, high]).all()
        assert low <= effect.quantile(0.5) <= high


# --- 0 and 1


@pytest.mark.parametrize(("change", "least"), [
    (lambda rows, k: rows.assign(died=rows.died * rows.drug), 0),
    (lambda rows, k: rows.assign(died=rows.died * (1 - rows.drug)), 0),
    (lambda rows, k: rows.assign(died=np.maximum(rows.died, rows.drug)), 0),
    (lambda rows, k: rows.assign(died=rows.died * (k > 0)), 30),
    (lambda rows, k: rows.assign(died=((rows.index == 3) & (k == 0)).astype(int)), 0),
    (lambda rows, k: rows.assign(died=(rows.index < 2).astype(int) * (k > 0)), 2)],
    ids=["nobody untreated", "nobody treated", "all treated", "a site without", "one in all", "2 %"])
def test_risks_are_near_the_shares_however_few_have_the_event(change, least):
    """To 4 standard errors of a share of 90, or of one of 5 % where it is less: 0.1 of one half, and less of few."""
    result, rows = fitted(BINARY, change)
    found = result.risks()
    check_whole(found)
    for arm, risk in ((0, found.of_untreated), (1, found.of_treated)):
        share = rows.died[rows.drug == arm].mean()
        error = np.sqrt(max(share * (1 - share), 0.05 * 0.95) / 90)
        assert abs(risk.mean - share) < 4 * error
        assert 0 <= risk.interval()[0] <= risk.interval()[1] <= 1
    few = min(rows.died[rows.drug == arm].sum() for arm in (0, 1)) < 10
    assert any("events among the untreated" in text for text in result.warnings()) == few


# --- times


def kaplan_meier(rows: pd.DataFrame, time: float) -> float:
    """1 − Π (1 − d/n) over the times of events, ties and all."""
    left = 1.0
    for at in np.unique(rows.days[(rows.died == 1) & (rows.days <= time)]):
        left *= 1.0 - ((rows.days == at) & (rows.died == 1)).sum() / (rows.days >= at).sum()
    return 1.0 - left


def ties(rows):
    return rows.assign(days=np.ceil(rows.days))


def from_0_on(rows):
    return rows.assign(days=np.where(rows.index < 6, 0.0, rows.days))


def censored(rows):
    return rows.assign(died=0)


def alone(change, name):
    """At all sites: what is shown at one site each is shown of each by itself, in a fit of its own."""
    return pytest.param(lambda rows, k: change(rows), id=name, marks=pytest.mark.slow)


@pytest.mark.parametrize("change", [
    pytest.param(lambda rows, k: (censored, ties, from_0_on)[k](rows), id="a site censored, one of ties, one from 0"),
    alone(ties, "ties"), alone(from_0_on, "from 0 on"),
    pytest.param(lambda rows, k: rows if k else censored(rows), id="a site censored", marks=pytest.mark.slow),
    pytest.param(lambda rows, k: rows.assign(days=np.where(rows.died == 1, 2.0, np.maximum(rows.days, 7.0))),
                 id="all at one time"),
    pytest.param(lambda rows, k: rows.assign(days=np.where(rows.died == 1, np.minimum(rows.days, 6.0) / 3.0, 8.0)),
                 id="none after the first horizon", marks=pytest.mark.slow)])
def test_curves_are_near_kaplan_and_meiers_at_every_horizon(change):
    """To 4 standard errors of a share of 90, less those who are censored: 0.2; both horizons, each arm."""
    result, rows = fitted(TIMED, change)
    near_kaplan_and_meier(result, rows, (2.0, 6.0))
    curves = result.survival()
    assert (np.diff(curves.treated, axis=1) <= 1e-12).all()


def near_kaplan_and_meier(result, rows, horizons) -> None:
    for time in horizons:
        found = result.risks(time=time)
        check_whole(found)
        for arm, risk in ((0, found.of_untreated), (1, found.of_treated)):
            assert abs(risk.mean - kaplan_meier(rows[rows.drug == arm], time)) < 0.2, (time, arm)


def test_where_few_have_the_event_after_a_horizon_it_is_said_with_min_cell():
    """Two of 180, after day 2: too few to be an interval of their own, whatever the horizon. Curves are near Kaplan's
    and Meier's there too."""
    def change(rows, k):
        early = np.where(rows.died == 1, np.minimum(rows.days, 6.0) / 3.0, 8.0)
        return rows.assign(days=np.where((rows.index == 5) & (k < 2), 5.0, early),
                           died=np.where((rows.index == 5) & (k < 2), 1, rows.died))

    rows = {site: change(table(number), number) for number, site in enumerate(SITES)}
    study = Study(treatment="drug", outcome=TIMED, covariates=["age"], options=FEW,
                  policy={"name": "simulation", "min_cell": 5})
    result = FedCI(study).fit([Source(site, own) for site, own in rows.items()])
    assert result.outcome.layout.timing[-2:].tolist() != [2.0, 6.0]
    assert any("the horizon 2 is no end of an interval" in text for text in result.warnings())
    near_kaplan_and_meier(result, pd.concat(rows.values()), (6.0,))


# --- counts


@pytest.mark.parametrize(("change", "near"), [
    (lambda rows, k: rows.assign(falls=rows.falls * (1 - rows.drug)), 0.3),
    (lambda rows, k: rows.assign(falls=rows.falls * (k > 0)), 0.5),
    (lambda rows, k: rows.assign(falls=((rows.index + k) % 12 == 0).astype(int)), 0.8),
    (lambda rows, k: rows.assign(years=rows.years / 8766.0), 0.4),
    (lambda rows, k: rows.assign(falls=2, years=rows.years * (1 + rows.drug)), 0.3)],
    ids=["nobody treated", "a site without", "few", "in hours", "all alike"])
def test_rates_are_near_events_over_exposure(change, near):
    result, rows = fitted(COUNTED, change)
    found = result.rates()
    check_whole(found)
    for arm, rate in ((0, found.of_untreated), (1, found.of_treated)):
        own = rows[rows.drug == arm]
        crude = own.falls.sum() / own.years.sum()
        assert abs(rate.mean - crude) < near * max(crude, 0.1 * rows.falls.sum() / rows.years.sum())


def test_one_huge_count_is_named_by_the_diagnostics():
    """10,000 of one person among counts of 0 and 1: the fit ends, and its checks say that it does not fit."""
    result, _ = fitted(COUNTED, lambda rows, k: rows.assign(
        falls=np.where((rows.index == 5) & (k == 0), 10_000, (rows.index % 7 == 0).astype(int))))
    check_whole(result.rates())
    assert {"calibration", "residuals"} & {problem.name for problem in result.diagnostics.problems}
