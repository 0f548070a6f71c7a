"""What a site checks before it computes: rounds, memory, how many people carry a sum."""


import pytest

from fedci import Source
from fedci.errors import DisclosureError, SizeError
from fedci.model import padding
from fedci.protocol.messages import Refusal, Reply
from fedci.site.limits import check_memory, check_rounds
from fedci.site.site import Site
from support.asked import asked_alone, greeting
from support.masked import SECURE, prepared
from tests_support import STANDARD_OTHERWISE, frame, study

STANDARD = STANDARD_OTHERWISE | {"secure_sum": "auto"}
"""`standard` but for its masks and the number of sums: one small site is asked here, by itself."""


def asked_to_be_ready(agreed, rows=60) -> Reply | Refusal:
    site = Site(agreed, Source("a", frame(rows, 0)).read(agreed))
    site.answer(greeting(agreed))
    said = []
    for request, reply in asked_alone(site):
        said.append(reply)
        if request.name == "Prepare":
            break
    return said[-1]


def test_more_parameters_than_rows_need_consent():
    wide = {"model": {"mean": {"kind": "network", "trunk": [40]}}}
    refused = asked_to_be_ready(study(policy=STANDARD, options=wide))
    assert refused.code == "disclosure"
    assert "parameters for 60 people; the policy allows 1 for each in the clear" in refused.reason
    assert "if every site consents, [policy] name = \"custom\" with max_parameters_per_row = 4.3" in refused.reason
    assert isinstance(asked_to_be_ready(study(policy=STANDARD | {"max_parameters_per_row": 10.0}, options=wide)), Reply)


def test_a_masked_study_with_too_many_columns_is_refused_before_its_fit():
    few = SECURE | {"min_rows": 30, "statistics_per_row": 0.1}
    with pytest.raises(DisclosureError, match="columns per person in a sum of 3 sites"):
        prepared(policy=few, preset="default")


def test_a_study_has_no_more_rounds_than_its_policy_allows():
    agreed = study(options={"optimiser": {"rounds": 5}})
    check_rounds(agreed, agreed.fit_options())
    strict = agreed.model_copy(update={"policy": agreed.policy.model_copy(update={"max_rounds": 4})})
    with pytest.raises(DisclosureError, match="the study has 5 rounds, the policy allows 4"):
        check_rounds(strict, agreed.fit_options())


def test_memory_is_looked_at_before_it_is_taken(monkeypatch):
    agreed = study()
    check_memory("a", 40, 3, agreed.fit_options())
    monkeypatch.setattr(padding, "bytes_available", lambda: 10_000)
    with pytest.raises(SizeError, match="40 rows need about"):
        check_memory("a", 40, 3, agreed.fit_options())
