"""What an outcome of some type is not asked, and what is said instead."""

import pytest

from fedci.errors import UsageError
from fedci.result import suited
from fedci.study.study import Study


def of(kind, **more):
    outcome = {"event" if kind == "survival" else "name": "y", "type": kind, **more}
    return Study(treatment="w", outcome=outcome if kind != "numeric" else "y", covariates=["x"], policy="simulation")


STUDIES = {"numeric": of("numeric"), "binary": of("binary"), "count": of("count"),
           "survival": of("survival", time="t", horizons=[1.0])}
ASKED = {"check_realised": {"numeric"}, "check_of_risks": {"binary", "survival"}, "check_of_times": {"survival"},
         "check_of_rates": {"count"}}


@pytest.mark.parametrize("kind", STUDIES)
@pytest.mark.parametrize("check", ASKED)
def test_only_suited_outcomes_are_asked(check, kind):
    if kind in ASKED[check]:
        getattr(suited, check)(STUDIES[kind])
    else:
        with pytest.raises(UsageError, match=suited.KINDS[kind]):
            getattr(suited, check)(STUDIES[kind])


def test_realised_effects_are_of_two_arms():
    arms = Study(treatment={"name": "w", "arms": ["a", "b", "c"]}, outcome="y", covariates=["x"], policy="simulation")
    with pytest.raises(UsageError, match="of='cate'"):
        suited.check_realised(arms)


@pytest.mark.parametrize("strength", [0.5, float("nan")])
def test_bounds_ask_for_a_strength_of_one_or_more(strength):
    suited.check_bounds(STUDIES["numeric"], 1.0)
    with pytest.raises(UsageError, match="is no Λ"):
        suited.check_bounds(STUDIES["numeric"], strength)
    with pytest.raises(UsageError, match="numeric outcomes"):
        suited.check_bounds(STUDIES["count"], 2.0)
