"""A fit in a handful of exchanges: what is asked, and that masks, restarts and the number of parties change nothing."""

import numpy as np
import pytest

from fedci import FedCI
from fedci.errors import StudyError
from fedci.model.families import model_of
from fedci.model.family import Ask
from fedci.model.shared.few_family import FewFamily
from fedci.protocol.ask import shapes
from fedci.study.options import preset
from support.masked import SIZES
from tests_support import hospitals, study

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
    """With the preset's own four messages of products."""
    FedCI(plan(options=SMALL | {"optimiser": {"draws": 4}})).fit(hospitals(*SIZES))
    assert asked == ["Hello", "AskColumns", "AskMeans", "AskSpreads", *["AskProducts"] * 4, "AskSharedEffects"]


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
    from fedci.model.shared import few_family

    few_family._ascended.cache_clear()
    again = FedCI(plan()).fit(hospitals(*SIZES))
    assert again.outcome.fit.theta.tobytes() == clear.outcome.fit.theta.tobytes()
    assert few_family._ascended.cache_info().misses == 3
    assert few_family._ascended.cache_info().hits >= 3 * len(SIZES)


def test_what_was_told_is_packed_and_unpacked(clear):
    model, anchor = clear.outcome.layout.model, clear.outcome.fit.anchor
    assert isinstance(model, FewFamily)
    told = model.unpacked(anchor)
    np.testing.assert_array_equal(told.packed, anchor)
    assert model.unpacked(np.zeros(0)) is None


def test_shapes_are_those_of_its_dictionary():
    model = model_of(preset("few").model, 4, 4, 2)
    for laws in (0, 1):
        found, sizes = shapes(model, Ask("AskProducts", {"laws": np.array(laws)})), model.dictionary(laws)
        assert found["cross"] == (sizes["dictionary"],)
        assert found["gram"] == (sizes["dictionary"] * (sizes["dictionary"] + 1) // 2,)
        assert found["own_scores"] == (sizes["scores"], sizes["own"])


def test_other_outcomes_are_refused_with_the_preset_that_knows_them():
    with pytest.raises(StudyError, match="numeric outcomes only. Choose the preset 'default'"):
        plan(outcome={"name": "y", "type": "binary"}).fit_options()
