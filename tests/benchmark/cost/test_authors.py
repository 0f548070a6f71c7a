"""The comparison with the authors' course: it ends at the first of ours that is no worse, and both are judged alike."""

import pytest

from fedci.benchmark.cost import authors, own_process
from fedci.benchmark.cost.speed import fitted
from tests_support import COVARIATES, frame


def test_it_ends_with_the_first_course_that_reaches_the_authors_objective(monkeypatch, capsys):
    heights = dict(zip(authors.COURSES, (-500.0, -600.0, -510.0, -499.0), strict=False))
    monkeypatch.setattr(own_process, "answer", lambda module, course, cores: {
        "course": course, "rounds": 7, "seconds": authors.THEIRS / 20, "compiled": authors.THEIRS / 50,
        "objective": heights[course]})
    authors.main([])
    *before, last, ratio = capsys.readouterr().out.splitlines()
    assert last.startswith("ours, 40 rounds: 7 rounds, 9.")
    assert ratio == ("a better objective in 1/20 of the seconds of the authors' own code, compilation included, "
                     "in 1/50 where all is compiled")
    assert len(before) == 4


def test_the_judges_see_what_the_fit_reached():
    """Under the fit's own draws the judges' objective is the fit's."""
    from fedci import FedCI, Source, Study

    study = Study(treatment="w", outcome="y", covariates=dict.fromkeys(COVARIATES, {}), policy="simulation",
                  preset="classic", options={"optimiser": {"rounds": 5}, "prediction": {"draws": 16}},
                  diagnostics={"enabled": False})
    result, sites = fitted(FedCI(study, seed=1), [Source("lyon", frame(40, 0)), Source("oslo", frame(40, 1))])
    draws = result.outcome.options.optimiser.draws
    assert authors.judged(result, sites, seed=1, draws=draws) == pytest.approx(result.outcome.fit.objective, rel=1e-12)
