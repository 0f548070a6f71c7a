"""Fits that several files of tests look at, made once for each worker."""

from dataclasses import replace

import pytest

USERS = {
    "classic": ("across/test_public_api.py", "coordinator/test_coordinator.py", "result/test_result.py",
                "result/test_storage.py", "site/test_people.py", "report/test_manuscript.py"),
    "refuted": ("coordinator/test_refits.py", "result/test_result.py", "report/test_manuscript.py",
                "report/test_checklists.py", "cli/test_results.py"),
    "place": ("cli/test_workflow.py", "result/test_comparison.py", "result/test_prediction.py", "site/test_release.py"),
}
"""Fixture → the files that look at it: one worker runs them all (tests/conftest.py)."""


@pytest.fixture(scope="session")
def classic():
    """A small study of the preset `classic`, as fitted in one process."""
    from tests_support import fit, hospitals

    return fit(hospitals(40, 37))


@pytest.fixture(scope="session")
def refuted():
    """A small study with all diagnostics and refuters."""
    from support.refuted import QUICK, REFUTE, sources
    from tests_support import fit

    return fit(sources(), options=QUICK, diagnostics=REFUTE)


@pytest.fixture(scope="session")
def blinded(refuted):
    """The same study, sealed: the outcome is the same object."""
    from support.refuted import QUICK, REFUTE
    from tests_support import study

    plan = study(options=QUICK, diagnostics=REFUTE | {"blinded": True})
    return lambda: replace(refuted, study=plan, opened=None)


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with two hospitals' files, a study of the preset `default`, its result, and new people."""
    from fedci import FedCI, Source
    from support.commanded import FAST, NEW
    from tests_support import frame, study

    folder = tmp_path_factory.mktemp("workflow")
    plan = study(preset="default", options=FAST)
    plan.write(folder / "study.toml")
    for name, rows, seed in (("a", 40, 0), ("b", 37, 1)):  # one size class: compiled once
        frame(rows, seed).to_csv(folder / f"{name}.csv", index=False)
    frame(NEW, 9).assign(patient=[f"P{i}" for i in range(NEW)]).to_csv(folder / "new.csv", index=False)
    FedCI(plan).fit([Source(name, folder / f"{name}.csv") for name in "ab"]).save(folder / "result")
    return folder
