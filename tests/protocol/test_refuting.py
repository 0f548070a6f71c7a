"""What a refuter changes, and nothing else; and only those the study asks for."""

from dataclasses import replace

import numpy as np
import pytest

from fedci import __version__
from fedci.coordinator.refits import wanted
from fedci.errors import DisclosureError
from fedci.protocol import refuting
from fedci.protocol.messages import Hello, Refusal, Reply
from fedci.site.site import Site
from fedci.table.design import design_columns
from support.refuted import QUICK, REFUTE, sources
from tests_support import study


def test_a_refuter_changes_what_it_says_and_nothing_else():
    """At the site, from the study's seed: whoever asks chooses nothing."""
    plan = study(diagnostics=REFUTE, seed=5)
    table = sources()[0].read(plan)
    rows = np.arange(100, 100 + table.rows)
    made = {name: refuting.changed(plan, table, rows, name) for name in wanted(plan)}
    placebo, noisy, part, control = (made[name][0] for name in ("placebo", "random-cause", "subset",
                                                                "negative-control"))
    assert sorted(placebo.w) == sorted(table.w)
    assert placebo.w.tolist() != table.w.tolist()
    assert noisy.columns == (*table.columns, refuting.NOISE)
    assert noisy.columns == design_columns(refuting.plan(plan, "random-cause"))[0]
    np.testing.assert_array_equal(noisy.x[:, :-1], table.x)
    np.testing.assert_array_equal(part.x, table.x[made["subset"][1] - 100])
    assert (part.treated, part.rows - part.treated) == (np.ceil(0.8 * table.treated),
                                                        np.ceil(0.8 * (table.rows - table.treated)))
    np.testing.assert_array_equal(control.y, sources()[0].data.falls)
    for one in (placebo, noisy, part):
        np.testing.assert_array_equal(one.y, table.y if one is not part else table.y[made["subset"][1] - 100])
    again = refuting.changed(plan, table, rows, "subset")[1]
    np.testing.assert_array_equal(again, made["subset"][1])
    others = [refuting.changed(study(diagnostics=REFUTE, seed=6), table, rows, "subset")[1],
              refuting.changed(plan, replace(table, site="site-1"), rows, "subset")[1]]
    assert all(list(other) != list(again) for other in others)


def test_a_site_refutes_only_what_the_study_asks_for():
    plan = study(options=QUICK, diagnostics={"refute": ["placebo"]})
    site = Site(plan, sources()[0].read(plan))

    def hello(name):
        return site.answer(Hello("r", 1, site.name, __version__, plan.hash(), {site.name: True}, name))

    assert isinstance(hello("placebo"), Reply)
    assert site.run.study.diagnostics.enabled is False
    for name in ("subset", "negative-control", "magic", "__init__"):
        refused = hello(name)
        assert isinstance(refused, Refusal)
        assert "does not ask for this refuter" in refused.reason
    noisy = plan.model_copy(update={"policy": plan.policy.model_copy(update={"epsilon": 1.0})})
    with pytest.raises(DisclosureError, match="differential privacy"):
        refuting.check_wanted(noisy, "site-0", "placebo")


def test_the_run_of_the_study_is_behind_each_of_its_refuters():
    for name in ("placebo", "random-cause", "subset", "negative-control"):
        assert refuting.behind(refuting.run_of("0123-a", name)) == "0123-a"
    assert refuting.behind("0123-a") == "0123-a"
