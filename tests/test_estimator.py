"""The whole study in one process: each table is read once, and whoever reads it fits the same."""

import numpy as np
import pytest

from fedci import FedCI, Source
from fedci.errors import HandshakeError, StudyError, UsageError
from tests_support import fit_sites, hospitals, study

OPTIONS = {"optimiser": {"rounds": 2}, "prediction": {"draws": 8}}


@pytest.fixture(scope="module")
def fitted():
    return fit_sites(hospitals(40, 37), options=OPTIONS)


def test_sources_tables_and_sites_are_three_ways_to_one_result(fitted):
    estimator, tables = FedCI(study(options=OPTIONS)), [source.read(study()) for source in hospitals(40, 37)]
    for again in (estimator.fit(hospitals(40, 37)), estimator.fit_tables(tables)):
        assert again.outcome.fit.theta.tobytes() == fitted[0].outcome.fit.theta.tobytes()
        assert again.ate().mean == fitted[0].ate().mean


def test_each_table_is_read_once(monkeypatch):
    reads, read = [], Source.read
    monkeypatch.setattr(Source, "read", lambda source, plan: reads.append(source.name) or read(source, plan))
    FedCI(study(options=OPTIONS)).fit(hospitals(40, 37))
    assert reads == ["site-0", "site-1"]


def test_a_result_holds_the_people_of_each_site(fitted):
    result, sites = fitted
    assert result.people.keys() == sites.keys()
    for name, people in result.people.items():
        np.testing.assert_array_equal(people.table.y, sites[name].run.table.y)
        np.testing.assert_array_equal(people.rows, np.arange(people.table.rows))


def test_preset_seed_and_sites_are_the_studys():
    """What the estimator is told makes another study, with a hash of its own; its sources are its cohort."""
    plan, tables = study(), [source.read(study()) for source in hospitals(40, 37)]
    told = FedCI(plan, preset="default", seed=5).study
    assert (told.preset, told.seed) == ("default", 5)
    assert told.hash() not in (plan.hash(), study(seed=5).hash())
    assert FedCI(plan).study == plan
    assert FedCI(plan).sites(tables)["site-0"].party.agreed == study(sites=["site-0", "site-1"])


def test_without_a_site_of_the_study_nothing_is_summed():
    with pytest.raises(HandshakeError, match="names has 2 sites, and the study is of 3 at least"):
        FedCI(study(sites=["site-0", "site-1", "site-2"])).fit(hospitals(40, 37))


def test_secrets_follow_from_the_seed_and_differ_between_sites():
    tables = [source.read(study()) for source in hospitals(40, 37)]
    one, again, other = (FedCI(study(), seed=seed).sites(tables) for seed in (0, 0, 1))
    assert one["site-0"].party.secret == again["site-0"].party.secret
    assert len({site.party.secret for sites in (one, other) for site in sites.values()}) == 4


def test_names_of_sites_are_given_once_and_at_least_one_is():
    estimator = FedCI(study())
    with pytest.raises(UsageError, match="no source was given"):
        estimator.fit([])
    with pytest.raises(StudyError, match="'site-0' is given twice"):
        estimator.fit_tables([hospitals(40)[0].read(study())] * 2)
