"""Sites that join a standing study, or withdraw from it: kits are made anew, each site's store stays for ever."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedci import FedCI, Source
from fedci.coordinator import coordinator
from fedci.coordinator.talk import Talk
from fedci.errors import DisclosureError
from fedci.privacy.agreement import Credentials
from fedci.protocol.course import Contract
from fedci.protocol.engine import InProcessEngine
from fedci.result.comparison import compare
from fedci.site import ledger
from fedci.site.accountant import BEFORE, Accountant, opened
from fedci.site.admission import situation, told_per_person
from fedci.site.site import Site
from support.mailed import FEW, SECURE, SITES, Mailed, plan
from tests_support import frame

FOUR = ("bern", *SITES)
TABLES = {site: frame(40, number) for number, site in enumerate(FOUR)}
"""Nobody is at two sites: each is a site's own people, in every study."""
OPENED = 7
"""Exchanges until sums of the columns have left: the handshake, three of keys, the columns and what opens them."""


def agreed(sites, policy=SECURE, **changes):
    return plan(**({"sites": sites, "ids": [], "policy": policy} | changes))


def rows_of(sites):
    return {site: TABLES[site] for site in sites}


def fitted_here(study):
    """The same study in one process, by sites that have told nothing yet."""
    return FedCI(study).fit([Source(site, TABLES[site]) for site in study.sites])


def told_by(mailed, site):
    """Numbers of people's rows that left by this kit."""
    return sum(ledger.numbers(entry) for entry in ledger.read(mailed.kits[site])
               if entry["reply"] == "Reply" and entry["phase"] not in BEFORE)


def counts(folder, site):
    return Accountant(folder / site / "store").counts


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A study that lyon, oslo and turin have run to its result. What follows works on copies."""
    made = Mailed(tmp_path_factory.mktemp("standing"), agreed(SITES), rows_of(SITES))
    made.go()
    return made


# --- joining


def test_a_site_that_joins_is_fitted_with_the_others_and_each_store_has_what_both_runs_told(standing, tmp_path):
    """Nothing of the earlier run is reused: the result is that of four sites which meet for the first time."""
    before = standing.copied(tmp_path / "before")
    first = {site: counts(before.stores, site) for site in SITES}
    after = Mailed(tmp_path / "after", agreed(FOUR), rows_of(FOUR), before.stores)
    after.go()
    here = fitted_here(after.study)
    assert np.array_equal(after.found().outcome.fit.theta, here.outcome.fit.theta)
    assert np.array_equal(after.found().ate().means, here.ate().means)
    for site in SITES:
        now = counts(after.stores, site)
        assert (now.runs, now.cohorts, now.people) == (2, 1, 40)
        assert first[site].numbers == told_by(before, site) > 0
        assert now.numbers == now.most == first[site].numbers + told_by(after, site)
    new = counts(after.stores, "bern")
    assert (new.runs, new.cohorts, new.people) == (1, 1, 40)
    assert new.numbers == told_by(after, "bern") > 0
    cohorts = compare(before.found(), after.found()).cohorts
    assert (cohorts.joined, cohorts.left, cohorts.people) == (("bern",), (), (120, 160))
    assert cohorts.moved == pytest.approx(here.ate().mean - before.found().ate().mean, rel=1e-12)


def limit(times):
    """The policy under which a site tells so many times what a study of four tells of a person."""
    study = agreed(FOUR)
    once = told_per_person(situation(study, Source("lyon", TABLES["lyon"]).read(study), len(FOUR)))
    return SECURE | {"numbers_per_person": times * once}


@pytest.mark.parametrize("times, admitted", [(1.5, False), (2.5, True)])
def test_where_both_runs_tell_more_than_the_policy_allows_the_sites_that_were_there_refuse(tmp_path, times, admitted):
    """Before a number of the second run leaves; with room for both it begins. The site that joins has told nothing, and
    is not the one that refuses."""
    policy = limit(times)
    before = Mailed(tmp_path / "before", agreed(SITES, policy), rows_of(SITES))
    before.go(steps=OPENED)
    stores = {site: counts(before.stores, site) for site in SITES}
    assert all(store.numbers > 0 for store in stores.values())
    after = Mailed(tmp_path / "after", agreed(FOUR, policy), rows_of(FOUR), before.stores)
    if admitted:
        after.go(steps=OPENED)
        assert {counts(after.stores, site).runs for site in SITES} == {2}
        return
    stands, refused = after.next(), {}
    while not refused:
        refused = {site: said for site, path in stands.requests.items()
                   if (said := after.answer(site, path).refused)}
        stands = stands if refused else after.next()
    assert set(refused) == set(SITES)
    assert all("of some of these people" in said and "policy.numbers_per_person" in said for said in refused.values())
    with pytest.raises(DisclosureError, match="site '(lyon|oslo|turin)'"):
        after.next()
    assert {site: told_by(after, site) for site in SITES} == dict.fromkeys(SITES, 0)
    assert {site: counts(after.stores, site) for site in SITES} == stores


# --- withdrawing


def test_a_site_withdraws_in_the_midst_the_others_go_on_and_of_it_nothing_more_is_told(tmp_path):
    """With a quorum. Its kit, store and ledger stay as they were; the result is that of the other three."""
    study = agreed(FOUR, quorum=3)
    mailed = Mailed(tmp_path, study, rows_of(FOUR))
    stands = mailed.go(steps=OPENED)
    assert stands.result is None
    assert told_by(mailed, "oslo") > 0
    kept, told = mailed.files("oslo"), counts(mailed.stores, "oslo")
    assert told.numbers == told_by(mailed, "oslo")
    asked = []
    stands = mailed.next(new_run=True, without=("oslo",))
    while stands.result is None:
        asked += stands.requests
        for site, path in stands.requests.items():
            mailed.answer(site, path)
        stands = mailed.next(without=("oslo",))
    assert set(asked) == set(FOUR) - {"oslo"}
    assert mailed.files("oslo") == kept
    assert counts(mailed.stores, "oslo") == told
    found = mailed.found()
    rest = agreed(tuple(site for site in FOUR if site != "oslo"), quorum=3)
    assert found.sites == rest.sites
    assert np.array_equal(found.ate().means, fitted_here(rest).ate().means)
    for site in rest.sites:
        assert counts(mailed.stores, site).runs == 2


def sums_of_the_opening(folder, sites, policy):
    """What the coordinator of a new study has after it: sums over all sites, opened under masks; stores stay."""
    study = agreed(sites, policy, options=FEW)
    keys = {site: Ed25519PrivateKey.generate() for site in sites}
    peers = {site: key.public_key() for site, key in keys.items()}
    engine = InProcessEngine({site: Site(study, Source(site, TABLES[site]).read(study),
                                         Credentials(None, keys[site], peers), opened(folder / site, []))
                              for site in sites})
    talk, contract = Talk(engine, f"run-{len(sites)}"), Contract(study, tuple(sites))
    coordinator.handshake(talk, contract)
    talk, _ = coordinator.open_course(talk, contract)
    return talk.totals["AskMeans"].sums


def test_two_runs_with_and_without_a_site_tell_its_own_sums_unless_the_others_refuse(tmp_path):
    """docs/coordinator.md says so of a site that leaves after the study: no mask keeps a difference closed. What does
    is the accountant of those that stay."""
    rest, own = tuple(site for site in FOUR if site != "oslo"), TABLES["oslo"]
    whole, without = (sums_of_the_opening(tmp_path / "open", sites, SECURE) for sites in (FOUR, rest))
    exact = 1e-9  # masks are of fixed point; sums are of thousands
    np.testing.assert_allclose(whole["total"] - without["total"], own[["age", "bmi", "sex"]].sum(), atol=exact)
    np.testing.assert_allclose(whole["y_total"] - without["y_total"], own.groupby("w").y.sum(), atol=exact)
    np.testing.assert_allclose(whole["y_count"] - without["y_count"], own.groupby("w").size(), atol=exact)
    sums_of_the_opening(tmp_path / "bounded", FOUR, limit(1.5))
    with pytest.raises(DisclosureError, match="of some of these people"):
        sums_of_the_opening(tmp_path / "bounded", rest, limit(1.5))
