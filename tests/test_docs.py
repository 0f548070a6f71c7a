"""The documentation as a test: pages build strictly, every command block runs or at least names what exists."""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer.main

from fedci import cli

ROOT = Path(__file__).parent.parent
RUN = ("docs/tutorial.md", "docs/site.md", "docs/coordinator.md", "README.md")
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md",
                                                              ROOT / "CONTRIBUTING.md"])
PARSED = "<!-- parsed only"
LANGUAGES = {"sh", "python", "toml", "text"}


def blocks(page: str) -> list[tuple[str, str, bool]]:
    """(language, text, whether it is only parsed) of each fenced block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(r"(?:^(<!--[^\n]*-->)\n)?^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(one[2], one[3], (one[1] or "").startswith(PARSED)) for one in found]


# ── run ─────────────────────────────────────────────────────────────────────────────────────────────────────


def call(line: str) -> None:
    """A line of a block: our own command in this process (compiled parts are shared), anything else by the shell."""
    if not line.startswith("fedci "):
        done = subprocess.run(["bash", "-euc", line], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        return
    command, _, target = line.partition(" > ")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert cli._exit_code(shlex.split(command)[1:]) == 0, line
    if target:
        Path(target.strip()).write_text(said.getvalue(), encoding="utf-8")


def export(line: str, monkeypatch) -> None:
    name, _, value = line.removeprefix("export ").partition("=")
    monkeypatch.setenv(name, os.path.expandvars(value))


@pytest.mark.parametrize("page", [page for page in RUN if page != "README.md"])
def test_the_blocks_of_a_page_run_in_their_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    ran = 0
    for language, text, parsed in blocks(page):
        if language != "sh" or parsed:
            continue
        for line in [text] if "<<" in text else text.splitlines():
            export(line, monkeypatch) if line.startswith("export ") else call(line)
            ran += 1
    assert ran >= 3
    if page == "docs/tutorial.md":
        _check_tutorial(tmp_path)


def _check_tutorial(folder: Path) -> None:
    """What the tutorial promises: the interval of the average effect holds the simulated truth, and files are there."""
    import pandas as pd

    from fedci import Result

    truth = pd.read_csv(folder / "hospitals" / "truth.csv")
    low, high = Result.load(folder / "result").ate().interval(0.01)  # one seed in a hundred would fail
    assert low < truth[truth.file != "new-patients.csv"].true_effect.mean() < high
    assert (folder / "result" / "report.html").stat().st_size > 50_000
    assert len(pd.read_csv(folder / "effects.csv")) == 100


# ── parsed ──────────────────────────────────────────────────────────────────────────────────────────────────


def commands(page: str) -> list[str]:
    """Every line of a page that calls us, make or pip: of sh blocks, and after '$' in transcripts."""
    lines = []
    for language, text, _ in blocks(page):
        if language == "sh":
            lines += [line.partition("  #")[0].strip() for line in text.splitlines()]
        elif not language:
            lines += [line[2:].strip() for line in text.splitlines() if line.startswith("$ ")]
    return [line for line in lines if line.startswith(("fedci ", "make ", "pip "))]


def check_fedci(words: list[str]) -> None:
    """The command exists, so do its options, and none that it requires is left out."""
    command = typer.main.get_command(cli.app)
    while getattr(command, "commands", None):
        assert words, command.name
        assert words[0] in command.commands, words
        command, words = command.commands[words[0]], words[1:]
    known = {name: one for one in command.params for name in getattr(one, "opts", ())}
    given = [word for word in words if word.startswith("--")]
    assert not [word for word in given if word not in known], words
    required = [one.opts[-1] for one in command.params
                if one.required and one.param_type_name == "option" and not set(one.opts) & set(given)]
    assert not required, (words, required)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_a_page_shows_exists(page):
    makefile = (ROOT / "Makefile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for line in commands(page):
        words = shlex.split(line.partition(" > ")[0].partition(" && ")[0])
        if words[0] == "fedci":
            check_fedci(words[1:])
        elif words[0] == "make":
            targets = [word for word in words[1:] if "=" not in word]
            assert all(re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE) for word in targets)
        else:
            for found in re.findall(r"fedci\[([\w,]+)\]", line):
                assert set(found.split(",")) <= set(extras)


@pytest.mark.parametrize("page", [*RUN, "CONTRIBUTING.md"])
def test_no_block_of_a_page_to_follow_is_left_untested(page):
    assert {language for language, _, _ in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES)
def test_toml_blocks_are_toml_and_python_blocks_compile(page):
    for language, text, _ in blocks(page):
        if language == "toml":
            tomllib.loads(text)
        if language == "python":
            compile(text, page, "exec")


# ── built ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_site_builds_strictly(tmp_path):
    pytest.importorskip("zensical")
    for name in ("docs", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site" / "reference" / "index.html").read_text(encoding="utf-8")
    for name in ("fedci.study.Study", "fedci.result.Result.ate", "fedci.data.Source"):
        assert f'id="{name}"' in page
    assert all((tmp_path / "site" / name / "index.html").exists() for name in ("tutorial", "site", "coordinator"))


def test_the_notebook_runs(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "examples" / "first-study.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # kept without outputs
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", []))
    assert "On average treatment changes the outcome by" in printed


def test_the_citation_names_this_version():
    from fedci import __version__

    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {__version__}" in text
    assert "license: Apache-2.0" in text
