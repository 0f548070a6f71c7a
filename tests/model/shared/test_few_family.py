"""A fit in a handful of exchanges: what is asked, and that masks, restarts and the number of parties change nothing."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from fedci import FedCI
from fedci.errors import StudyError
from fedci.model.families import model_of
from fedci.model.family import Ask
from fedci.model.rows import Anchor, BetaLaw
from fedci.model.shared import dictionary, evidence, few_family, home
from fedci.model.shared.dictionary import Point, Stage
from fedci.model.shared.few_family import FewFamily
from fedci.protocol.ask import shapes
from fedci.protocol.requests import REQUESTS
from fedci.study.options import preset
from fedci.table.source import Source
from support.masked import SIZES
from tests_support import frame, hospitals, study

SMALL = {"model": {"directions": 1, "knots": 3, "landmarks": 4}, "optimiser": {"rounds": 3, "draws": 4},
         "prediction": {"draws": 32}}
SECURE = {"name": "simulation", "secure_sum": "auto"}


def plan(**changes):
    return study(**{"preset": "few", "options": SMALL, "policy": "simulation", "diagnostics": {"enabled": False},
                    **changes})


@pytest.fixture(scope="module")
def clear():
    return FedCI(plan()).fit(hospitals(*SIZES))


@pytest.fixture
def asked(monkeypatch):
    """Names of all that is asked of a site."""
    from fedci.protocol.engine import InProcessEngine

    names, ask = [], InProcessEngine._ask

    def seen(self, name, request):
        if name == "site-0":
            names.append(getattr(request, "name", type(request).__name__))
        return ask(self, name, request)

    monkeypatch.setattr(InProcessEngine, "_ask", seen)
    return names


def test_a_study_takes_eight_exchanges(asked):
    """With the preset's own five messages of products."""
    FedCI(plan(options=SMALL | {"optimiser": {"draws": 4}})).fit(hospitals(*SIZES))
    assert asked == ["Hello", "AskColumns", "AskMoments", *["AskProducts"] * 5, "AskSharedEffects"]


def test_a_column_far_from_0_has_its_squares_about_the_mean(asked):
    """One exchange more, and units as good as those of any other preset."""
    far = [Source(f"site-{s}", frame(n, s).assign(age=lambda table: table.age + 1e6)) for s, n in enumerate(SIZES)]
    found, rounds = (FedCI(plan(preset=name, options=SMALL)).fit(far) for name in ("few", "default"))
    assert asked[:5] == ["Hello", "AskColumns", "AskMoments", "AskSpreads", "AskProducts"]
    np.testing.assert_array_equal(found.outcome.layout.scales.x_sd, rounds.outcome.layout.scales.x_sd)


def test_units_are_those_of_two_exchanges(clear):
    rounds = FedCI(plan(preset="default", options=SMALL)).fit(hospitals(*SIZES))
    for name in ("x_mean", "x_sd", "y_mean", "y_sd"):
        np.testing.assert_allclose(getattr(clear.outcome.layout.scales, name),
                                   getattr(rounds.outcome.layout.scales, name), rtol=1e-9)


def test_masked_is_clear(clear):
    """Products are rounded to 2⁻⁴⁹ of n/σ²; the ascents at home multiply that by the curvature's condition."""
    masked = FedCI(plan(policy=SECURE)).fit(hospitals(*SIZES))
    np.testing.assert_allclose([r.objective for r in masked.outcome.fit.rounds],
                               [r.objective for r in clear.outcome.fit.rounds], rtol=1e-7)
    assert masked.ate().mean == pytest.approx(clear.ate().mean, rel=1e-4)
    assert masked.ate().sd == pytest.approx(clear.ate().sd, rel=1e-4)


def test_resumed_is_uninterrupted(clear, tmp_path):
    """A run that starts again walks its few exchanges anew, to the same bits."""
    def stop(seen):
        if seen.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FedCI(plan()).fit(hospitals(*SIZES), progress=stop, checkpoint=tmp_path / "kept.npz")
    found = FedCI(plan()).fit(hospitals(*SIZES), checkpoint=tmp_path / "kept.npz")
    assert found.outcome.fit.theta.tobytes() == clear.outcome.fit.theta.tobytes()
    assert found.ate().mean == clear.ate().mean


def test_all_parties_of_a_process_fit_once_and_others_come_to_the_same(clear):
    """What a site works out by itself is what the coordinator has: to the bit, from the bytes of the sums."""
    few_family._ascended.cache_clear()
    again = FedCI(plan()).fit(hospitals(*SIZES))
    assert again.outcome.fit.theta.tobytes() == clear.outcome.fit.theta.tobytes()
    assert few_family._ascended.cache_info().misses == 3
    assert few_family._ascended.cache_info().hits >= 3 * len(SIZES)


def test_a_step_that_led_away_is_taken_back(clear, monkeypatch):
    """The last message finds a far lower bound at its point: effects rest on the one before, with the own functions it
    has."""
    ascended, seen = few_family._ascended, {}

    def fallen(model, *asked):
        here, value, q = ascended(model, *asked)
        told = model.unpacked(np.frombuffer(asked[5]))
        seen[told.number] = here, np.frombuffer(q), told
        return (here - 1e3 if told.number == 3 else here), value, q

    monkeypatch.setattr(few_family, "_ascended", fallen)
    found = FedCI(plan()).fit(hospitals(*SIZES)).outcome
    model, (value, q, told) = found.layout.model, seen[2]
    kept, means = model.unpacked(found.fit.anchor), np.split(found.fit.theta, 2)[0]
    assert (kept.number, kept.value) == (3, value)
    np.testing.assert_array_equal(kept.point.packed, told.point.packed)
    own = home.own_places(model)
    np.testing.assert_array_equal(means[own], told.point.vector[own])
    np.testing.assert_array_equal(np.delete(means, own), np.delete(np.split(q, 2)[0], own))


def test_before_the_last_the_next_point_is_half_as_far():
    model = model_of(preset("few", {"model": SMALL["model"]}).model, 2, 2, 2)
    here = np.arange(model.size, dtype=float)
    told = few_family.Told(2, Point(np.zeros(model.size)), None, 0.0)
    means, log_sds = np.split(model._back(np.concatenate([here, -here]), told, False), 2)
    np.testing.assert_array_equal(means, 0.5 * here)
    np.testing.assert_array_equal(log_sds, -here)


def test_what_was_told_is_packed_and_unpacked(clear):
    model, anchor = clear.outcome.layout.model, clear.outcome.fit.anchor
    assert isinstance(model, FewFamily)
    told = model.unpacked(anchor)
    np.testing.assert_array_equal(told.packed, anchor)
    assert model.unpacked(np.zeros(0)) is None


def test_shapes_are_those_of_its_dictionary():
    model = model_of(preset("few").model, 4, 4, 2)
    for stage in Stage:
        found, sizes = shapes(model, Ask("AskProducts", {"stage": np.array(stage)})), model.dictionary(stage)
        assert found["cross"] == (sizes["dictionary"],)
        assert found["gram"] == (sizes["dictionary"] * (sizes["dictionary"] + 1) // 2,)
        assert found["own_scores"] == (sizes["scores"], sizes["own"])


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 7])
def test_what_is_foreseen_has_the_stage_of_every_message(rounds):
    options = preset("few", {"optimiser": {"rounds": rounds}})
    foreseen = REQUESTS["AskProducts"].occasions(options)
    asked = [dictionary.stage_of(number) for number in range(1, rounds + 1)]
    assert [stage for stage, times in foreseen for _ in range(times)] == asked
    assert asked[0] == Stage.FIRST
    assert Stage.FIRST not in asked[1:]


# --- outcomes of 0 and 1


def with_risks(name, rows, seed):
    table, rng = frame(rows, seed), np.random.default_rng((seed, 5))
    died = (rng.uniform(size=rows) < expit(0.06 * (table["age"] - 60) + table["w"] - 0.5)).astype(int)
    died[:2] = 0, 1
    return Source(name, table.assign(y=died))


@pytest.fixture(scope="module")
def risks():
    return [with_risks(f"site-{s}", n, s) for s, n in enumerate(SIZES)]


BINARY = {"name": "y", "type": "binary"}


def test_a_binary_study_takes_as_many_and_masks_change_nothing(risks, asked):
    clear = FedCI(plan(outcome=BINARY)).fit(risks)
    assert asked == ["Hello", "AskColumns", "AskMoments", *["AskProducts"] * 3, "AskRisks"]
    masked = FedCI(plan(outcome=BINARY, policy=SECURE)).fit(risks)
    for arm in ("untreated", "treated"):
        one, other = (getattr(result.risks(), arm) for result in (clear, masked))
        np.testing.assert_allclose(other, one, rtol=1e-4)


@pytest.mark.parametrize("matched", [False, True])
def test_at_the_point_the_statistics_are_those_of_the_bound(matched):
    """Where it touches follows from the law of β̃ that the message before left; rows of 0 and 1 at many sites."""
    model = model_of(preset("few", {"model": SMALL["model"]}).model, 2, 2, 2, "binary")
    rng, sites = np.random.default_rng(1), []
    for k in range(2):
        x, w = rng.standard_normal((30, 2)), (rng.random(30) < 0.5).astype(float)
        sites.append(model.rows(x, w, (rng.random(30) < expit(x[:, 0] + w)).astype(float), np.zeros(20), k))
    here = model.prior[0] + 0.1 * model.prior[1] * rng.standard_normal(model.size)
    root = np.eye(model.columns) + np.tril(0.1 * rng.standard_normal((model.columns, model.columns)))
    law = BetaLaw(jnp.asarray(0.3 * rng.standard_normal((1, model.columns))), jnp.asarray(root[None]))
    point = Point(here, np.asarray(dictionary.coefficients(model, model.unravel(jnp.asarray(here)), law.mean[0])),
                  Stage.SHAPED)
    asked = model._asked(point, law, matched)
    told = [model.answer("AskProducts", asked, site, None).sums for site in sites]
    total = evidence.Statistics(*(sum(part[name] for part in told)[None] for name in evidence.Statistics._fields))
    found, _ = dictionary.statistics(model, dictionary.products(total), dictionary.span(model, point), point,
                                     jnp.asarray(here), 60.0)
    gram = root @ root.T
    anchor = Anchor(*map(jnp.asarray, (here[None], (gram - np.eye(len(gram)))[np.triu_indices(len(gram))][None],
                                       (gram @ np.asarray(law.mean[0]))[None])))
    parts = [evidence.statistics(model, jnp.asarray(here)[None], site, model.options.jitter,
                                 site.local(model, anchor, 1, matched)) for site in sites]
    for name, exact in zip(evidence.Statistics._fields, map(sum, zip(*parts, strict=True)), strict=True):
        size = np.abs(exact).max()
        np.testing.assert_allclose(getattr(found, name), exact[0], rtol=0, atol=1e-5 * size, err_msg=name)


@pytest.mark.parametrize("outcome", [{"time": "days", "event": "y", "type": "survival", "horizons": [2.0]},
                                     {"name": "y", "type": "count"}], ids=["survival", "count"])
def test_other_outcomes_are_refused_with_the_preset_that_knows_them(outcome):
    with pytest.raises(StudyError, match="numeric outcomes and 0/1 outcomes only. Choose the preset 'default'"):
        plan(outcome=outcome).fit_options()


def test_with_noise_on_sums_outcomes_of_0_and_1_are_refused():
    with pytest.raises(StudyError, match="numeric outcomes only where sums have noise.*exact sums"):
        plan(outcome=BINARY, policy="standard").fit_options()
