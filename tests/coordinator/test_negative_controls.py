"""Many negative controls in one study: each is a fit of its own on the same course, and its hash is the study's own."""

import numpy as np
import pytest

from fedci import FedCI, Source, Study
from fedci.errors import StudyError
from fedci.protocol import refuting
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
