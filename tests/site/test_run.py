"""A site's run: frozen, led on by answers alone; a new run keeps what holds for ever and nothing else."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from fedci import Source
from fedci.errors import SiteError, SizeError
from fedci.protocol.messages import Refusal, Step
from fedci.site import run as runs
from fedci.site.site import Site
from support.asked import asked_until, greeting
from tests_support import frame, study


@pytest.fixture
def site():
    return Site(study(), Source("a", frame(40, 0)).read(study()))


def hello():
    return greeting(study(), run="one")


def test_a_run_is_replaced_and_never_changed(site):
    before = site.run
    with pytest.raises(FrozenInstanceError):
        before.name = "other"
    site.answer(hello())
    assert site.run is not before
    assert before.course is None
    assert site.run.contract.agreed == study()


def test_answering_by_the_run_alone_changes_nothing_at_the_site(site):
    before = site.run
    after, reply = site.answered(before, hello())
    assert site.run is before
    assert after.name == "one"
    assert reply.notes == {"warnings": []}


def test_a_refusal_is_no_step(site):
    site.answer(hello())
    before = site.run
    assert isinstance(site.answer(Step("one", 2, "a", "Prepare")), Refusal)
    assert site.run is before


def test_a_new_run_forgets_all_but_that_sums_have_left(site):
    site.answer(hello())
    asked_until(site, "Prepare", run="one")
    assert site.run.prepared is not None
    fresh = site.begun("")
    assert fresh.described
    assert (fresh.course, fresh.prepared, fresh.name) == (None, None, "")


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


def test_rare_values_are_merged_in_every_table_of_a_run():
    """Before linkage, after it, and in a refuter's run: what is computed on never has them."""
    agreed = study(policy={"name": "simulation", "min_cell": 5}, diagnostics={"refute": ["placebo"]})
    rows = frame(40, 0)
    rows = rows.assign(bmi=np.where(rows.index == 7, 9.0, np.arange(40) // 2 % 2 + 1.0), w=np.arange(40) % 2)
    site = Site(agreed, Source("a", rows).read(agreed))
    assert set(site.party.whole.x[:, 1]) == {1.0, 2.0, 9.0}
    site.answer(greeting(agreed))
    tables = [site.run.table]
    site.restore_linkage(np.arange(36))
    tables.append(site.run.table)
    site.answer(greeting(agreed, run="run-placebo", refuter="placebo"))
    tables.append(site.run.table)
    assert [set(table.x[:, 1]) for table in tables] == 3 * [{1.0, 2.0}]
    assert site.run.refuter == "placebo"


def test_where_a_fit_stood_is_kept_for_the_disk_and_used_after_a_restart(site):
    site.answer(hello())
    steps = asked_until(site, "Evaluate", run="one")
    assert site.run.place(steps[0].round) is None  # before the fit
    packed = {steps[-1].round: site.run.place(steps[-1].round)}
    again = Site(study(), Source("a", frame(40, 0)).read(study()))
    again.restore_places(packed)
    again.answer(hello())
    assert again.run.course.earlier == packed
    again.answer(greeting(study(), run="two"))
    assert again.run.course.earlier == {}  # another run's are none of this one
