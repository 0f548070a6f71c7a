"""Handshake and linkage, answered from a run: a coordinator chooses no seed, no option and no cohort."""

from dataclasses import fields, replace

import pytest

from fedci import Source
from fedci.errors import HandshakeError, SiteError, StudyError
from fedci.protocol.messages import AskLinkKey, Hello, Step
from fedci.site import opening, summing
from fedci.site.site import Site
from support.asked import asked_until, greeting
from tests_support import frame, study

THREE = ("a", "b", "c")


def made(**changes) -> Site:
    agreed = study(**changes)
    return Site(agreed, Source("a", frame(40, 0)).read(agreed))


def hello(site, **changes):
    return opening.hello(site.party, site.run, greeting(site.party.agreed, **changes))[0]


@pytest.mark.parametrize("changes, what", [({"version": "0.0.1"}, "version of fedci"), ({"study_hash": "ab"}, "study")])
def test_parties_that_differ_do_not_begin(changes, what):
    with pytest.raises(HandshakeError, match=f"the {what} differs"):
        hello(made(), **changes)


def test_the_study_alone_says_what_binds_the_parties():
    """Nothing of a handshake is an option or a seed; another one is another study, and its hash differs."""
    assert {field.name for field in fields(Hello)} == {"run", "round", "site", "version", "study_hash", "sites",
                                                       "refuter"}
    plan = {"seed": 7, "options": {"optimiser": {"rounds": 3}}}
    contract = hello(made(**plan)).contract
    assert (contract.seed, contract.options) == (7, study(**plan).fit_options())
    for other in ({"seed": 8}, {"preset": "paper"}, {"options": {"optimiser": {"rounds": 4}}}):
        with pytest.raises(HandshakeError):
            hello(made(**plan), study_hash=study(**plan | other).hash())


# --- the cohort


def test_the_cohort_is_the_studys_and_no_part_of_it():
    """A sum over some of the sites, beside one over all, would tell what the others hold."""
    site = made(sites=THREE)
    assert hello(site, sites=reversed(THREE)).contract.sites == THREE
    for some in (("a", "b"), ("b", "c"), ("a",)):
        with pytest.raises(HandshakeError, match=r"the study is of 3 at least.*Nothing was answered"):
            hello(site, sites=some)
    with pytest.raises(StudyError, match="'d' is not in the study"):
        hello(site, sites=(*THREE, "d"))


def test_with_a_quorum_so_many_will_do_and_the_site_is_one_of_them():
    site = made(sites=(*THREE, "d"), quorum=3)
    assert hello(site, sites=("a", "c", "d")).contract.sites == ("a", "c", "d")
    for few in (("a", "b"), ("b", "c", "d")):
        with pytest.raises(HandshakeError, match="the study is of 3 at least, this one among them"):
            hello(site, sites=few)
    with pytest.raises(HandshakeError):
        hello(made(), sites=("b", "c"))  # a study that lists no sites


# --- runs


def test_another_run_begins_without_what_was_agreed_before_and_none_changes_its_cohort():
    site = made()
    site.answer(greeting(site.party.agreed))
    asked_until(site, "Prepare")
    run, agreed = site.run, site.party.agreed
    assert opening.hello(site.party, run, greeting(agreed, number=9))[0] == run
    fresh = opening.hello(site.party, run, greeting(agreed, run="other", sites=("a", "b")))[0]
    assert (fresh.name, fresh.prepared, fresh.sums, dict(fresh.course.places)) == ("other", None, None, {})
    assert fresh.described
    with pytest.raises(HandshakeError, match="begun with other sites"):
        opening.hello(site.party, run, greeting(agreed, sites=("a", "b")))


def test_a_refuter_that_the_study_does_not_ask_for_is_refused():
    with pytest.raises(SiteError, match="does not ask for this refuter"):
        hello(made(), refuter="placebo")
    wanting = made(diagnostics={"refute": ["placebo"]})
    run = hello(wanting, refuter="placebo")
    assert run.contract.refuter == "placebo"
    assert run.table.w.sum() == wanting.party.whole.w.sum()
    assert (run.table.w != wanting.party.whole.w).any()


@pytest.mark.parametrize("step, request_of", [(summing.step, Step("run", 2, "a", "AskColumns")),
                                              (opening.link, AskLinkKey("run", 2, "a"))])
def test_nothing_comes_before_the_handshake(step, request_of):
    site = made()
    with pytest.raises(SiteError, match="waits for a handshake"):
        step(site.party, site.run, request_of)


def test_linkage_comes_before_the_first_sums_in_a_study_with_ids():
    agreed = study(ids=("pid",))
    site = Site(agreed, Source("a", frame(40, 0).assign(pid=[f"p{k}" for k in range(40)])).read(agreed))
    run, request = hello(site), AskLinkKey("run", 2, "a")
    assert opening.link(site.party, run, request)[1].notes["people"] == 40
    for turn in ((site.party, replace(run, described=True)), (made().party, hello(made()))):
        with pytest.raises(SiteError, match="linkage comes before the first sums, in a study with ids"):
            opening.link(*turn, request)


def test_the_words_of_a_handshake_hold_no_count_of_rows_that_are_left_out():
    """Before the accountant has looked: of two studies, or two tables, they could differ by one person."""
    words = []
    for missing, least in ((20, 10), (21, 10), (20, 0)):
        rows = frame(100, 0)
        rows.loc[: missing - 1, "y"] = float("nan")
        agreed = study(rows_without="drop", policy={"name": "custom", "min_cell": least})
        site = Site(agreed, Source("a", rows).read(agreed))
        reply = opening.hello(site.party, site.run, greeting(agreed))[1]
        words.append([told for told in reply.notes["warnings"] if "left out" in told])
    assert words[0] == words[1] == []
    assert words[2] == ["site 'a': left out as the study says: 20 rows without outcome"]
