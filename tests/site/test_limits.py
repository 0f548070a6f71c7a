"""What a site checks before it computes: units, options, parameters, rounds."""

from dataclasses import replace

import numpy as np
import pytest

from fedci import Source
from fedci.protocol.messages import AskMoments, AskStatistics, Hello, Prepare, Refusal, Reply
from fedci.site import summing
from fedci.site.run import reply_to
from fedci.site.site import Site
from fedci.version import __version__
from tests_support import frame, study

STANDARD = {"name": "standard"}


def hello(site: Site, run="run", **changes) -> Hello:
    options = site.run.study.fit_options().model_dump(mode="json")
    return Hello(run, 1, site.name, __version__, site.run.study.hash(), options | changes)


# --- options, parameters, rounds


def prepared(agreed, rows=60) -> tuple[Site, Reply | Refusal]:
    site = Site(agreed, Source("a", frame(rows, 0)).read(agreed))
    site.answer(hello(site))
    site.answer(AskMoments("run", 2, "a"))
    return site, site.answer(units(site))


def units(site, **changes) -> Prepare:
    x, y, rows = site.run.table.x, site.run.table.y, site.run.table.rows
    given = {"x_mean": x.mean(0), "x_sd": x.std(0), "y_mean": float(y.mean()), "y_sd": float(y.std()),
             "u": np.zeros(24), "index": 0, "sites": 1, "indicators": np.zeros(0, int), "people": rows,
             "all_u": np.zeros((1, 24))}
    return Prepare("run", 3, "a", **given | changes)


def test_units_that_blow_a_column_up_are_refused_and_units_are_given_once():
    """Of one site the pooled units are its own; a spread a third of it, or a mean two spreads away, is not."""
    agreed = study(policy=STANDARD)
    site, ready = prepared(agreed)
    assert isinstance(ready, Reply)
    assert isinstance(site.answer(replace(units(site), round=9)), Reply)  # the same once more
    other = site.answer(units(site, y_mean=0.0))
    assert "given before, and are not changed" in other.reason
    narrow = site.run.table.x.std(0) * [1.0, 1.0 / 3.0, 1.0]
    for wrong in ({"x_sd": narrow}, {"x_mean": site.run.table.x.mean(0) + 2 * site.run.table.x.std(0)},
                  {"y_sd": float(site.run.table.y.std()) / 3}):
        fresh = Site(agreed, Source("a", frame(60, 0)).read(agreed))
        fresh.answer(hello(fresh))
        fresh.answer(AskMoments("run", 2, "a"))
        refused = fresh.answer(units(fresh, **wrong))
        assert refused.code == "disclosure"
        assert "blow a column up" in refused.reason


@pytest.mark.parametrize("changes, code", [
    ({"optimiser": {"name": "ascent", "rounds": 100, "learning_rate": 1e6}}, "handshake"),
    ({"optimiser": {"name": "adam", "rounds": 900}}, "disclosure"), ({"prediction": {"draws": 4096}}, "handshake")])
def test_options_that_no_study_says_are_refused(changes, code):
    agreed = study(policy=STANDARD)
    site = Site(agreed, Source("a", frame(60, 0)).read(agreed))
    assert site.answer(hello(site, **changes)).code == code


def test_more_parameters_than_rows_need_consent():
    wide = {"model": {"mean": {"kind": "network", "trunk": [40]}}}
    refused = prepared(study(policy=STANDARD, options=wide))[1]
    assert refused.code == "disclosure"
    assert "parameters for 60 people; the policy allows 1 for each in the clear" in refused.reason
    assert "if every site consents, raise policy.max_parameters_per_row" in refused.reason
    assert isinstance(prepared(study(policy=STANDARD | {"max_parameters_per_row": 10.0}, options=wide))[1], Reply)


def test_a_run_asks_no_more_often_than_its_rounds_take(monkeypatch):
    agreed = study(preset="default", policy=STANDARD | {"max_rounds": 4, "check_trajectory": False},
                   options={"optimiser": {"rounds": 4}, "model": {"knots": 1, "directions": 1}})
    site, ready = prepared(agreed, 120)
    assert isinstance(ready, Reply)
    monkeypatch.setattr(summing, "_round", lambda party, run, ready, request: (run, reply_to(request, {})))
    ask = [AskStatistics("run", 4 + k, "a", np.zeros((1, site.run.prepared.model.size))) for k in range(12)]
    answers = [site.answer(request) for request in (*ask[:11], ask[3], ask[11])]
    assert all(isinstance(answer, Reply) for answer in answers[:-1])  # the same question again is no further one
    assert "asked 11 times" in answers[-1].reason
