"""Coordinator, sites and the seam between them."""

from dataclasses import replace

import numpy as np
import pytest

from fedci import FedCI, Source
from fedci.coordinator.coordinator import run_study
from fedci.errors import FedciError, HandshakeError, MessageError, SizeError
from fedci.model import padding
from fedci.model.paper import elbo
from fedci.protocol.codec import encode
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import AskMoments, Evaluate, Hello, Refusal, Reply
from fedci.site.site import Site
from tests_support import fit, frame, hospitals, study


def assert_same_study(one, two, rtol=0.0):
    np.testing.assert_allclose(one.outcome.fit.theta, two.outcome.fit.theta, rtol=rtol, atol=rtol)
    for site in (None, *one.sites):
        np.testing.assert_allclose(one.ate(site).mean, two.ate(site).mean, rtol=rtol)
        np.testing.assert_allclose(one.ate(site).sd, two.ate(site).sd, rtol=rtol)


@pytest.fixture(scope="module")
def result():
    return fit(hospitals(40, 37))


def test_the_same_seed_gives_the_same_bits(result):
    assert_same_study(result, fit(hospitals(40, 37)))


def test_another_seed_moves_the_draws_only_a_little(result):
    other = fit(hospitals(40, 37), seed=1)
    assert other.outcome.fit.theta.tobytes() != result.outcome.fit.theta.tobytes()
    assert abs(other.ate().mean - result.ate().mean) < 0.2 * result.ate().sd


def test_the_order_of_the_sites_does_not_matter(result):
    assert_same_study(result, fit(hospitals(40, 37)[::-1]))


def test_every_preset_and_optimiser_runs():
    few = {"rounds": 3, "fresh_draws": False}
    for name in ("ascent", "adam", "adagrad", "lbfgs"):
        result = fit(hospitals(40, 37), options={"optimiser": {"name": name, "learning_rate": 1e-4, **few}})
        assert len(result.outcome.fit.rounds) == 3
        assert result.verdict == "stopped at the cap"
        assert any("stopped at the cap" in text for text in result.warnings())
    paper = fit(hospitals(40, 37), preset="paper", options={"optimiser": {"rounds": 3}})
    assert paper.outcome.options.model.mean.kind == "network"
    assert np.isfinite(paper.ate().mean)


def test_the_objective_rises_to_convergence(result):
    objectives = [r.objective for r in result.outcome.fit.rounds]
    assert result.verdict == "converged"
    assert result.outcome.fit.objective == max(objectives) > objectives[0]


def test_sites_of_one_size_class_share_a_compilation(monkeypatch):
    """33 to 40 rows are one class: two sites trace the site's term once, one of 20 rows once more."""
    traces = []
    original = elbo.site_term
    monkeypatch.setattr(elbo, "site_term", lambda *args: traces.append(1) or original(*args))
    unseen = {"model": {"jitter": 1.25e-10}, "optimiser": {"rounds": 4}}
    fit(hospitals(40, 37), options=unseen)
    assert len(traces) == 1
    fit(hospitals(39, 20), options=unseen)
    assert len(traces) == 2


@pytest.mark.parametrize("n, rows", [(0, 8), (1, 8), (8, 8), (9, 16), (33, 40), (50, 56), (64, 64), (65, 80),
                                     (1000, 1024), (1025, 1280)])
def test_size_classes(n, rows):
    assert padding.size_class(n) == rows
    assert n <= rows <= max(8, 1.25 * n + 8)


def test_what_a_site_sends_does_not_grow_with_its_rows():
    """Sums only: a site of 97 people sends exactly as many bytes per round as one of 53."""
    sent = []
    for n in (53, 97):
        sites = {"a": Site(study(), Source("a", frame(n, 0)).read(study()))}
        engine = _Recorder(InProcessEngine(sites))
        run_study(engine, study(), study(options={"optimiser": {"rounds": 2}}).fit_options(), 0)
        sent.append([{name: array.shape for name, array in reply.sums.items()} for reply in engine.replies])
        assert all(n not in shape for reply in sent[-1] for shape in reply.values())
    assert sent[0] == sent[1]


class _Recorder:
    def __init__(self, engine):
        self.engine, self.sites, self.replies = engine, engine.sites, []

    def exchange(self, requests):
        replies = self.engine.exchange(requests)
        self.replies += replies.values()
        return replies


def test_bytes_are_counted(result):
    for seen in result.traffic.values():
        assert seen.messages == len(result.outcome.fit.rounds) + 4  # hello, moments, units, effects
        assert seen.sent > 0
        assert seen.received > 0


def _site():
    plan = study()
    return Site(plan, Source("a", frame(30, 0)).read(plan))


def test_a_site_refuses_another_study_or_version():
    site = _site()
    good = Hello("run", 1, "a", "0.1.0", site.study.hash(), site.study.fit_options().model_dump(mode="json"))
    assert isinstance(site.answer(good), Reply)
    for wrong in (replace(good, version="9.9"), replace(good, study_hash="0" * 64)):
        refusal = site.answer(wrong)
        assert isinstance(refusal, Refusal)
        assert refusal.code == HandshakeError.code
        assert "here" in refusal.reason
        assert "at the coordinator" in refusal.reason


def test_a_site_answers_in_turn_and_for_itself_only():
    site, arrays = _site(), (np.zeros(3), np.zeros((1, 2, 2)), np.zeros((1, 2, 2)))
    assert "out of turn" in site.answer(AskMoments("run", 1, "a")).reason
    assert "out of turn" in site.answer(Evaluate("run", 1, "a", *arrays)).reason
    assert "another site" in site.answer(AskMoments("run", 1, "b")).reason
    assert "does not answer" in site.answer(Refusal("run", 1, "a", "x", "y")).reason


class _Lying:
    """An engine whose second site answers for an earlier round."""

    def __init__(self, engine):
        self.engine, self.sites = engine, engine.sites

    def exchange(self, requests):
        replies = dict(self.engine.exchange(requests))
        name = self.sites[1]
        if isinstance(requests[name], Evaluate):
            replies[name] = replace(replies[name], round=replies[name].round - 1)
        return replies


def test_a_late_answer_is_refused_by_name():
    plan = study()
    sites = {s.name: Site(plan, s.read(plan)) for s in hospitals(40, 37)}
    with pytest.raises(MessageError, match="site-1"):
        run_study(_Lying(InProcessEngine(sites)), plan, plan.fit_options(), 0)


def test_a_refusal_keeps_its_error(monkeypatch):
    monkeypatch.setattr(padding, "bytes_available", lambda: 10_000)
    with pytest.raises(SizeError, match=r"site 'site-0'.*GiB") as problem:
        fit(hospitals(40))
    assert problem.value.exit_code == 2


def test_memory_is_predicted_before_it_is_taken():
    assert padding.bytes_needed(100_000, 8) > 8 * 100_000**2
    with pytest.raises(SizeError, match="rows need about"):
        padding.check_memory("a", 10**7, padding.bytes_needed(10**7, 8), "Take fewer.")


def test_a_column_constant_everywhere_is_named():
    frames = [frame(36, s).assign(bmi=20.0) for s in (0, 1)]
    with pytest.raises(FedciError, match="'bmi' is constant at all 2 sites"):
        fit([Source("a", frames[0]), Source("b", frames[1])])


def test_a_column_constant_at_one_site_is_not_an_error():
    result = fit([Source("a", frame(36, 0).assign(bmi=20.0)), Source("b", frame(36, 1))])
    assert np.isfinite(result.ate().mean)
    assert any("bmi" in text for text in result.warnings())


def test_repeated_rows_are_survived():
    """Repeated people make K singular; noise keeps C invertible, and the jitter's ladder is there for the rest."""
    twice = frame(20, 0)
    doubled = np.tile(np.arange(20), 2)
    result = fit([Source("a", twice.iloc[doubled]), Source("b", frame(36, 1))])
    assert np.isfinite(result.ate().sd)


def test_standard_policy_rounds_moments_and_suppresses_small_cells():
    plan = study(policy={"name": "standard", "max_rounds": 5}, options={"optimiser": {"rounds": 5}})
    rare = [frame(100, s).assign(sex=lambda f: (np.arange(100) < 4).astype(int)) for s in (0, 1)]
    result = FedCI(plan).fit([Source("a", rare[0]), Source("b", rare[1])])
    told = result.outcome.layout.moments["a"]
    assert list(told.suppressed) == [False, False, True]
    assert not told.x.values[:, 2].any()
    assert all(float(f"{v:.4g}") == v for v in told.x.values.ravel())
    assert result.outcome.layout.scales.x_sd[2] == 0.5


def test_messages_stay_small():
    """A round of the default model is a few kilobytes each way, whatever the rows."""
    theta, roots = np.zeros(66), np.zeros((8, 2, 2))
    assert len(encode(Evaluate("r", 1, "s", theta, roots, roots))) < 3000
