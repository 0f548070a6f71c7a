"""Many negative controls in one study: each is a fit of its own on the same course, and its hash is the study's own."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from fedci import FedCI, Source, Study
from fedci.coordinator import refits
from fedci.coordinator.coordinator import Round, run_study
from fedci.errors import AwayError, StudyError
from fedci.protocol import refuting
from fedci.protocol.engine import InProcessEngine, added
from fedci.report.manuscript import sections
from fedci.site.release import release
from fedci.study.sections import FEWEST_CONTROLS
from tests_support import frame, study

NAMES = tuple(f"c{k}" for k in range(FEWEST_CONTROLS))
QUICK = {"optimiser": {"rounds": 4}, "prediction": {"draws": 16}}
ASKED = {"negative_controls": list(NAMES)}


def tables():
    rng = np.random.default_rng(5)
    return [Source(f"site-{s}", frame(n, s).assign(**{name: rng.normal(size=n) for name in NAMES}))
            for s, n in enumerate((24, 22))]


def test_studies_without_them_keep_their_hash_and_the_columns_are_read():
    plain, asked = study(diagnostics={}), study(diagnostics=ASKED)
    assert plain.hash() != asked.hash()
    assert Study.from_toml(asked.to_toml()) == asked
    assert set(NAMES) <= set(asked.columns)
    assert refuting.wanted(asked) == tuple(f"control-{k}" for k in range(1, 1 + len(NAMES)))
    with pytest.raises(StudyError, match="too few"):
        study(diagnostics={"negative_controls": ["c1"]})
    with pytest.raises(StudyError, match="already"):
        study(diagnostics={"negative_controls": ["age", *NAMES]})


def test_runs_of_controls_are_known_by_their_names():
    assert refuting.is_refuters("a1-control-12")
    assert refuting.behind("a1-control-12") == "a1"
    assert not refuting.is_refuters("a1-control-")
    asked = study(diagnostics=ASKED)
    assert refuting.control_of(asked, "control-1") == "c0"
    assert refuting.control_of(asked, "control-99") is None
    assert refuting.plan(asked, "control-2").outcome == "c1"


def test_what_would_leave_counts_every_control():
    source = tables()[0]
    sums = [len(release(plan, source.read(plan)).sums) for plan in (study(diagnostics={}), study(diagnostics=ASKED))]
    phases = {part.phase for part in release(study(diagnostics=ASKED), source.read(study(diagnostics=ASKED))).sums}
    assert sums[1] > sums[0]
    assert {f"control-{k}: fit" for k in range(1, 1 + len(NAMES))} <= phases


def test_each_control_is_the_study_on_that_outcome_and_the_interval_is_calibrated(tmp_path):
    plan = study(options=QUICK, diagnostics=ASKED)
    result = FedCI(plan, seed=0).fit(tables())
    found = result.diagnostics.systematic
    assert [one.column for one in found.controls] == list(NAMES)
    alone = FedCI(study(options=QUICK, outcome="c1"), seed=0).fit(tables())
    assert found.controls[1].mean == alone.ate().mean
    assert [row.over for row in found.systematic] == ["all", "site-0", "site-1"]
    everyone = found.systematic[0]
    assert everyone.plain.low == result.ate().interval()[0]
    assert everyone.calibrated.high - everyone.calibrated.low > everyone.plain.high - everyone.plain.low
    [controls] = [section for section in sections(result, 0.05) if section.id == "controls"]
    assert [row[0] for row in controls.parts[-1].rows] == list(NAMES)
    result.save(tmp_path / "result")
    assert result.load(tmp_path / "result").diagnostics.systematic == found
    assert result.diagnostics.sealed().systematic is None


# --- at once


def test_fitted_at_once_they_are_those_of_one_after_the_other_to_the_bit(monkeypatch):
    """And as many bytes are counted; what was reached before is not fitted again."""
    monkeypatch.setattr(refits, "cores", lambda: 3 * refits.CORES)
    plan = study(options=QUICK, diagnostics=ASKED, sites=("site-0", "site-1"))
    sites = FedCI(plan).sites([source.read(plan) for source in tables()])
    engine, engines = InProcessEngine(sites), []
    outcome, kept = run_study(engine, plan), []

    def beside():
        engines.append(InProcessEngine({name: site.beside() for name, site in sites.items()}))
        return engines[-1]

    before = added([engine.traffic])
    at_once = refits.refuted(engine, plan, outcome, after=kept.append, beside=beside)
    together = added([engine.traffic, *(one.traffic for one in engines)])
    assert len(engines) == len(NAMES) - 1
    assert [len(one.diagnostics.systematic.controls) for one in kept] == [1, 2, 3, 4, 5]
    apart = InProcessEngine(sites)
    assert refits.refuted(apart, plan, outcome).diagnostics == at_once.diagnostics
    assert added([before, apart.traffic]) == together
    assert refits.refuted(engine, plan, kept[-1], beside=beside) is kept[-1]


def test_where_one_is_interrupted_the_others_end_with_their_round(monkeypatch):
    monkeypatch.setattr(refits, "cores", lambda: 2 * refits.CORES)
    now = Round(number=1, cap=9, objective=0.0, gradient_norm=0.0, seconds=0.0)
    there, begun, ended = threading.Event(), [], []

    def fit(name, told):
        begun.append(name)
        if name == "breaks":
            assert there.wait(20)
            raise OSError("the disk is full")
        there.set()
        try:
            for number in range(10**9):
                told(replace(now, number=number))
        except AwayError:
            ended.append(name)
            raise

    with pytest.raises(OSError, match="full"):
        list(refits.side_by_side(fit, ["breaks", "goes on", "waits"]))
    assert begun[:2] == ["breaks", "goes on"] or begun[:2] == ["goes on", "breaks"]
    assert "goes on" in ended
    assert set(ended) == set(begun) - {"breaks"}
