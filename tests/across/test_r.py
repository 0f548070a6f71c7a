"""The R package where R is: its vignette's chunks, its numbers held to Python's, and its errors (r/tests/run.R)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fedci

ROOT = Path(__file__).parents[2]


def needs_r():
    if shutil.which("Rscript") is None:
        pytest.skip("Rscript is not installed: make test-r installs it on Debian (r-base-core, r-cran-jsonlite)")
    if subprocess.run(["Rscript", "-e", "library(jsonlite)"], capture_output=True, check=False).returncode:
        pytest.skip("R has no package jsonlite: on Debian r-cran-jsonlite")


@pytest.mark.slow
def test_the_vignette_runs_and_rs_numbers_are_pythons(tmp_path):
    """The program is this tree's, whichever is installed."""
    needs_r()
    program = tmp_path / "fedci"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fedci "$@"\n')
    program.chmod(0o755)
    library = tmp_path / "library"
    library.mkdir()
    known = os.environ | {"R_LIBS": str(library), "FEDCI": str(program), "FEDCI_PYTHON": sys.executable,
                          "PYTHONPATH": str(Path(fedci.__file__).parents[1])}
    for call, where in ((["R", "CMD", "INSTALL", f"--library={library}", str(ROOT / "r")], tmp_path),
                        (["Rscript", "run.R"], ROOT / "r" / "tests")):
        done = subprocess.run(call, cwd=where, env=known, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "R's numbers are Python's: " in done.stdout
