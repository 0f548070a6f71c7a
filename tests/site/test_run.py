"""A site's run: frozen, led on by answers alone; a new run keeps what holds for ever and nothing else."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from fedci import Source
from fedci.errors import SiteError, SizeError
from fedci.protocol.messages import AskMoments, Hello, Prepare, Refusal
from fedci.site import run as runs
from fedci.site.site import Site
from fedci.version import __version__
from tests_support import frame, study


@pytest.fixture
def site():
    return Site(study(), Source("a", frame(40, 0)).read(study()))


def hello(run="one", number=1):
    return Hello(run, number, "a", __version__, study().hash(), study().fit_options().model_dump(mode="json"))


def test_a_run_is_replaced_and_never_changed(site):
    before = site.run
    with pytest.raises(FrozenInstanceError):
        before.seed = 3
    site.answer(hello())
    assert site.run is not before
    assert before.options is None
    assert site.run.options == study().fit_options()


def test_answering_by_the_run_alone_changes_nothing_at_the_site(site):
    before = site.run
    after, reply = site.answered(before, hello())
    assert site.run is before
    assert after.name == "one"
    assert reply.notes == {"warnings": []}


def test_a_refusal_is_no_step(site):
    site.answer(hello())
    before = site.run
    assert isinstance(site.answer(Prepare("one", 2, "a", x_mean=np.zeros(3), x_sd=np.ones(3), y_mean=0.0, y_sd=1.0,
                                          u=np.zeros(24), index=0, sites=3, indicators=np.zeros(0, int),
                                          few_rows=7, few_people=3)), Refusal)
    assert site.run is before


def test_a_new_run_forgets_all_but_that_moments_have_left(site):
    site.answer(hello())
    site.answer(AskMoments("one", 2, "a"))
    fresh = site.begun("")
    assert fresh.described
    assert (fresh.options, fresh.counts, fresh.name) == (None, None, "")


def test_a_refuters_run_is_on_the_rows_that_linkage_left(site):
    site.restore_linkage(np.arange(5, 40))
    np.testing.assert_array_equal(site.begun("placebo").linked, np.arange(5, 40))
    np.testing.assert_array_equal(site.begun("").linked, np.arange(40))


def test_rows_after_linkage_hold_to_the_policys_sizes():
    agreed = study(policy={"name": "simulation", "min_rows": 30})
    site = Site(agreed, Source("a", frame(40, 0)).read(agreed))
    with pytest.raises(SizeError, match="after linkage"):
        site.restore_linkage(np.arange(12))
    assert site.run.table.rows == 40


def test_what_is_not_there_yet_is_named():
    with pytest.raises(SiteError, match="it waits for the common units first"):
        runs.required("a", None, "the common units")
    assert runs.required("a", 3, "a number") == 3


def test_silence_lasts_from_its_round_on(site):
    assert not site.run.is_silent(7)
    silent = replace(site.run, silent_from=7)
    assert (silent.is_silent(6), silent.is_silent(7), silent.is_silent(9)) == (False, True, True)
