"""A degenerate fit is found and told as such, on the first screen and in the report; a fit that is none is not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI, Result, Source, Study
from fedci.cli.screen import result_in_words
from fedci.report.page import write_report
from tests_support import small

COVARIATES = ["x0", "x1", "x2"]
QUICK = small(25)


def sites(rare):
    """Two sites of 36 people: one event (2, else 1) at each, both among the untreated, taken as a number; or a normal
    outcome."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        frame = pd.DataFrame(rng.standard_normal((36, 3)), columns=COVARIATES).assign(t=np.arange(36) % 2)
        noise = rng.standard_normal(36)
        outcome = frame.x0 + 0.5 * frame.t + noise
        yield Source(name, frame.assign(y=(frame.index == frame.x0[frame.t == 0].idxmax()) + 1.0 if rare else outcome))


def fitted(rare):
    plan = Study(name="rare", treatment="t", outcome="y", covariates=COVARIATES, policy="simulation", options=QUICK)
    return FedCI(plan).fit(list(sites(rare)))


@pytest.fixture(scope="module")
def rare():
    return fitted(True)


def test_a_fit_whose_noise_vanished_is_told_as_degenerate(rare, tmp_path):
    assert "noise" in [problem.name for problem in rare.diagnostics.problems]
    assert rare.plain()["degenerate"] == rare.degenerate
    rare.save(tmp_path / "result")
    screen = result_in_words(rare, tmp_path / "result")
    page = write_report(tmp_path / "result").read_text(encoding="utf-8")
    for text in (screen, page):
        assert "The fit is degenerate" in text
        assert "few events" in text
        assert not [said for said in ("On average", "95% interval") if said in text.replace("widest 95% interval", "")]
    assert Result.load(tmp_path / "result").degenerate == rare.degenerate


def test_it_is_seen_without_diagnostics_and_while_the_effects_are_sealed(rare):
    bare = replace(rare, outcome=replace(rare.outcome, diagnostics=None))
    assert "The noise of the treated people's outcomes" in bare.degenerate
    assert "The fit is degenerate" in bare.summary()
    sealed = replace(bare, study=rare.study.model_copy(update={
        "diagnostics": rare.study.diagnostics.model_copy(update={"blinded": True})}))
    assert "The fit is degenerate" in sealed.summary()


def test_a_fit_that_is_none_tells_its_effects():
    result = fitted(False)
    assert (result.degenerate, result.plain()["degenerate"]) == (None, None)
    assert {row.verdict for row in result.diagnostics.plausibility.verdicts} == {"fine"}
    assert "On average treatment changes the outcome by" in result.summary()
