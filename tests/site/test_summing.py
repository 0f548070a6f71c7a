"""What is summed, answered from a run: the same question again is the same answer; what a run needs is asked for."""

from dataclasses import replace

import numpy as np
import pytest

from fedci import Source
from fedci.errors import DisclosureError, MessageError, SiteError
from fedci.protocol.messages import AskDiagnostic, AskMaskKey, AskStatistics, Evaluate, Hello, Prepare
from fedci.site import opening, summing
from fedci.site.site import Site
from fedci.version import __version__
from tests_support import frame, study
from tests_support import small as small_options

UNITS = {"x_mean": np.array([60.0, 26.0, 0.5]), "x_sd": np.array([17.0, 4.0, 0.5]), "y_mean": 3.0, "y_sd": 1.2,
         "u": np.zeros(24), "index": 0, "sites": 2, "indicators": np.zeros(0, int), "people": 80}


@pytest.fixture(scope="module")
def prepared():
    """(party, run) of a site that knows the common units, in the preset `default`."""
    agreed = study(preset="default", options=small_options(3))
    site = Site(agreed, Source("a", frame(40, 0)).read(agreed))
    hello = Hello("run", 1, "a", __version__, agreed.hash(), agreed.fit_options().model_dump(mode="json"))
    run = opening.hello(site.party, site.run, hello)[0]
    return site.party, opening.prepare(site.party, run, Prepare("run", 2, "a", **UNITS))[0]


def statistics(run, number=3, few=0.0):
    return AskStatistics("run", number, "a", thetas=run.prepared.model.prior[0][None], few=np.array(few))


def test_a_question_is_answered_from_the_run_and_leads_to_the_next(prepared):
    party, run = prepared
    after, reply = summing.summed(party, run, statistics(run))
    assert after.evaluations == {3}
    assert after.memory is not None
    assert run.memory is None
    again = summing.summed(party, run, statistics(run))[1]
    for name, part in reply.sums.items():
        np.testing.assert_array_equal(part, again.sums[name])


def test_questions_are_counted_by_round_up_to_the_policys_most(prepared):
    party, run = prepared
    most = run.prepared.model.exchanges(run.study.policy.max_rounds)
    full = replace(run, evaluations=frozenset(range(3, 3 + most)))
    assert summing.summed(party, full, statistics(run))[0].evaluations == full.evaluations
    with pytest.raises(DisclosureError, match=f"has asked {most} times"):
        summing.summed(party, full, statistics(run, number=10**6))


def test_a_stage_and_a_question_of_another_model_are_refused(prepared):
    party, run = prepared
    with pytest.raises(MessageError, match="no stage of this fit"):
        summing.summed(party, run, statistics(run, few=20.0))
    with pytest.raises(SiteError, match="its model is 'shared'"):
        summing.summed(party, run, Evaluate("run", 3, "a", theta=np.zeros(3), phi_roots=np.zeros((1, 2, 2)),
                                            sigma_roots=np.zeros((1, 2, 2))))


def test_without_units_or_secure_sums_nothing_is_summed(prepared):
    party, run = prepared
    with pytest.raises(SiteError, match="waits for the common units"):
        summing.summed(party, replace(run, prepared=None), statistics(run))
    with pytest.raises(SiteError, match="no secure sums"):
        summing.keys(party, run, AskMaskKey("run", 3, "a"))


def test_no_diagnostic_is_answered_under_differential_privacy(prepared):
    party, run = prepared
    noisy = run.study.policy.model_copy(update={"epsilon": 1.0})
    private = replace(run, study=run.study.model_copy(update={"policy": noisy}))
    with pytest.raises(DisclosureError, match="differential privacy: none are answered"):
        summing.diagnostic(party, private, AskDiagnostic("run", 3, "a", kind="balance", values={}))
