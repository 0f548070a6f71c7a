"""The documentation as a test: every code block runs, but for a few that say above themselves why they cannot.

    sh, $ lines of a transcript   run in their order, in a folder of the page's own
    toml                          a study file, or a part of one
    python                        run (the README's in test_demo.py, where its hospitals are made)
    text                          pictures
"""

import contextlib
import hashlib
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

import fedci
from fedci import FedCI, Result, Study
from fedci.cli import commands as cli
from tests_support import SMALL

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])
NOT_RUN, BEFORE = "not run: ", "before: "
SHELL, OTHERS = ("sh", ""), {"python", "toml", "text"}
QUICK = """
[model]
knots = 3
landmarks = 4

[optimiser]
rounds = 60
draws = 4

[prediction]
draws = 128
"""
SMALLER = SMALL | {"model": {"directions": 1, "knots": 3, "landmarks": 4, "inducing": 16}}
FEW_MESSAGES = QUICK.replace("rounds = 60\n", "")
"""Of the preset `few`, whose rounds are messages: as many as it says."""


def blocks(page: str) -> list[tuple[str, str, str]]:
    """(language, text, the comment above it) of each fenced block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.finditer(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(one[2], one[3], one[1] or "") for one in found]


def lines_of(language: str, text: str) -> list[str]:
    """The commands of a block: those after '$' in a transcript; a here-document is one command with its text."""
    if not language:
        return [line[2:].strip() for line in text.splitlines() if line.startswith("$ ")]
    return [text] if "<<" in text else [line.partition("  #")[0].strip() for line in text.splitlines()]


# ── run ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Terminal:
    """Types a page's commands: ours in this process (compiled parts are shared), others in a shell.

    A study that was run before (same command, study and tables: the same bits, `--quiet` or not) is not fitted again;
    its result is laid in the folder."""

    def __init__(self, kept: Path, monkeypatch):
        self.kept, self.monkeypatch = kept, monkeypatch

    def type(self, line: str) -> None:
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self.monkeypatch.setenv(name, os.path.expandvars(value))
        elif line.startswith("fedci run "):
            self._run(line)
        elif line.startswith("fedci "):
            self._ours(line)
            if line.startswith("fedci init "):
                self._made_small(line)
        else:
            done = subprocess.run(["bash", "-euc", line], capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            if written := re.match(r"cat > (study|from-omop)\.toml", line):
                path = Path(f"{written[1]}.toml")
                Study.read(path)
                asked = path.read_text(encoding="utf-8")
                path.write_text(asked + (FEW_MESSAGES if 'preset = "few"' in asked else QUICK), encoding="utf-8")

    def _ours(self, line: str) -> None:
        command, _, target = line.partition(" > ")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert cli._exit_code(shlex.split(command)[1:]) == 0, line
        assert said.getvalue(), line
        if target:
            Path(target.strip()).write_text(said.getvalue(), encoding="utf-8")

    def _made_small(self, line: str) -> None:
        """The proposed study with options that are quick to fit; as proposed, the demo fits one (test_demo.py)."""
        words = shlex.split(line)
        path = Path(words[words.index("--out") + 1])
        proposed = path.read_text(encoding="utf-8")
        Study.from_toml(proposed)
        path.write_text(proposed + QUICK, encoding="utf-8")

    def _run(self, line: str) -> None:
        words = shlex.split(line)
        out = words[words.index("--out") + 1]
        sites = sorted(word.partition("=")[::2] for word in words if "=" in word)
        asked = [word.encode() for word in words[3:] if "=" not in word and word not in (out, "--quiet")]
        tables = [site.encode() + (Path(path).read_bytes() if path != "sql:" else b"") for site, path in sites]
        read = [Path(words[2]).read_bytes(), *asked, *tables]
        kept = self.kept / hashlib.sha256(b"".join(read)).hexdigest()
        if not kept.exists():
            self._ours(line)
            shutil.copytree(out, kept)
        elif not Path(out).exists():
            shutil.copytree(kept, out)


def simulated(terminal: Terminal) -> None:
    terminal.type("fedci simulate --out hospitals")
    terminal.type("fedci init hospitals/lyon.csv --policy simulation --out study.toml")


def few_rounds(terminal: Terminal) -> None:
    """Small enough to be walked step by step."""
    terminal.type("fedci simulate --out hospitals --rows 60")
    terminal.type("fedci init hospitals/lyon.csv --policy simulation --out study.toml")
    proposed = Path("study.toml").read_text(encoding="utf-8").removesuffix(QUICK)
    text = proposed.replace('preset = "default"', 'preset = "classic"')
    short = "[optimiser]\nrounds = 2\n\n[prediction]\ndraws = 16\n\n[diagnostics]\nenabled = false\n"
    Path("study.toml").write_text(f"{text}\n{short}", encoding="utf-8")


def kit_sent(terminal: Terminal) -> None:
    if not Path("kits").exists():
        terminal.type("fedci network new study.toml --site lyon --site oslo --site turin --host study.example.org")
    if not Path("site-policy.toml").exists():
        terminal.type('fedci site policy --base simulation --reason "simulated people"')
    shutil.move("kits/lyon", "lyon")
    shutil.copy("hospitals/lyon.csv", "cohort.csv")


def taken_part(terminal: Terminal) -> None:
    """The kit's own party answers the first two requests of a run: its ledger tells of them."""
    from fedci.network import kit, party
    from fedci.protocol.codec import decode, encode
    from fedci.protocol.messages import Hello, Reply, Step
    from fedci.version import __version__

    own = kit.read("lyon", "site")
    party.write_run(own, {"data": str(Path("cohort.csv").resolve()), "approve": False, "patience": 1.0})
    site = party.SiteParty(own)
    cohort = dict.fromkeys(own.sites, True)
    greeting = Hello("0123", 1, "lyon", __version__, own.study_hash, cohort)
    for request in (greeting, Step("0123", 2, "lyon", "AskColumns")):
        assert isinstance(decode(site.answer(encode(request))), Reply)
    site.ended()


def has_answered(terminal: Terminal) -> None:
    simulated(terminal)
    kit_sent(terminal)
    taken_part(terminal)


def kit_lent(terminal: Terminal) -> None:
    kit_sent(terminal)
    taken_part(terminal)
    shutil.copytree("rehearsal", "result")


def result_sent(terminal: Terminal) -> None:
    """As a coordinator has it, without rows; which of its people linkage left, the site's kit knows."""
    import numpy as np

    terminal.type("fedci run study.toml --site lyon=hospitals/lyon.csv --site oslo=hospitals/oslo.csv "
                  "--site turin=hospitals/turin.csv --out result")
    with np.load("result/sites/lyon/rows.npz") as rows:
        np.save(f"lyon/run/kept-{Result.load('result').outcome.run}.npy", rows["kept"])
    shutil.rmtree("result/sites")
    shutil.copy("hospitals/new-patients.csv", ".")


def store_lost(terminal: Terminal) -> None:
    (Path(os.environ["FEDCI_SITE_STORE"]) / "accountant.jsonl").unlink()


def others_answered(terminal: Terminal) -> None:
    """To the newest request of each site that has one, beside lyon."""
    _answered(terminal, ("oslo", "turin"))


def _answered(terminal: Terminal, sites) -> None:
    newest = max(int(path.stem.split("-")[1]) for path in Path("requests").glob("*/request-*.fedci"))
    for site in sites:
        request = Path("requests") / site / f"request-{newest}.fedci"
        kit, data = ("lyon", "cohort.csv") if site == "lyon" else (f"kits/{site}", f"hospitals/{site}.csv")
        store = "" if site == "lyon" else f" --store store-{site} --policy site-policy.toml"
        if request.exists():
            terminal.type(f"fedci site answer {request} --kit {kit} --data {data} --out answers{store}")


def back_and_forth(terminal: Terminal) -> None:
    while not Path("result").exists():
        _answered(terminal, ("lyon", "oslo", "turin"))
        terminal.type("fedci coordinator next --kit kits/coordinator answers --out requests --result result")


def stroke(terminal: Terminal) -> None:
    """The trial's file beside the page's commands, where it is there."""
    file = Path(os.environ.get("FEDCI_IST", ROOT.parent / "shared" / "data" / "ist" / "ist.csv"))
    if not file.is_file():
        pytest.skip("the file of the International Stroke Trial is not in FEDCI_IST or shared/")
    Path("ist.csv").symlink_to(file)


PREPARED = {
    "stroke": stroke,
    "a study of few rounds with the sites": few_rounds, "the other sites have answered": others_answered,
    "letters have gone back and forth until the result": back_and_forth,
    "a study with the sites": simulated, "the coordinator has sent the kit": kit_sent,
    "a site has taken part": has_answered, "the site has taken part": taken_part, "the store is lost": store_lost,
    "the coordinator has sent the result": result_sent,
    "the site lyon has taken part, and lends its kit's ledger": kit_lent,
}
"""What a page takes for granted before a block, by the words of its comment."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def terminal(kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("FEDCI_SITE_STORE", str(tmp_path / "site-store"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return Terminal(kept, monkeypatch)


def commands(page: str) -> list[str]:
    return [line for language, text, _ in blocks(page) if language in SHELL for line in lines_of(language, text)]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_the_blocks_of_a_page_run_in_their_order(page, terminal, tmp_path):
    if any(line.startswith("fedci network") for line in commands(page)):
        pytest.importorskip("nvflare", reason="the extra `network` is not installed: pip install 'fedci[network]'")
    for language, text, comment in blocks(page):
        if language not in SHELL or comment.startswith(NOT_RUN):
            continue
        if comment.startswith(BEFORE):
            PREPARED[comment.removeprefix(BEFORE)](terminal)
        for line in lines_of(language, text):
            terminal.type(line)
    if page in PROMISED:
        PROMISED[page](tmp_path)


def _check_tutorial(folder: Path) -> None:
    """What the tutorial promises: the interval of the average effect holds the simulated truth, and files are there."""
    import pandas as pd

    truth = pd.read_csv(folder / "hospitals" / "truth.csv")
    low, high = Result.load(folder / "result").ate().interval(0.01)  # one seed in a hundred would fail
    assert low < truth[truth.file != "new-patients.csv"].true_effect.mean() < high
    assert (folder / "result" / "report.html").stat().st_size > 50_000
    assert len(pd.read_csv(folder / "effects.csv")) == 100


def _check_stroke(folder: Path) -> None:
    """From the file and from tables of a common data model: the same people, columns and seed, the same bits."""
    one, other = (Result.load(folder / name) for name in ("result", "from-omop"))
    assert (one.ate().means == other.ate().means).all()
    assert one.sites == other.sites


PROMISED = {"docs/tutorial.md": _check_tutorial, "docs/stroke.md": _check_stroke}
"""What pages say of the numbers that come out."""


def test_what_is_not_run_is_little_and_says_why():
    """Packages installed, another party waited for, hours of benchmarks: nothing else may be left out."""
    left = {(page, comment) for page in PAGES for _, _, comment in blocks(page) if comment.startswith(NOT_RUN)}
    assert all(re.search("installs packages|waits? for|takes long", comment) for _, comment in left)
    waits = [page for page, comment in left if "wait" in comment]
    assert sorted(waits) == ["README.md", "docs/coordinator.md", *["docs/network.md"] * 3, "docs/site.md"]
    assert len(left) == 13
    for page in PAGES:
        assert {language for language, _, _ in blocks(page)} <= OTHERS | set(SHELL), page


@pytest.mark.parametrize("page", [page for page in PAGES if any(language == "toml" for language, _, _ in blocks(page))])
def test_toml_blocks_are_study_files_or_parts_of_one(page):
    """A part is read in a study that has what the part leaves out."""
    for language, text, _ in blocks(page):
        if language == "toml":
            there = tomllib.loads(text)
            rest = {"treatment": '"treated"', "outcome": '"ldl_change"',
                    "covariates": '[{ name = "age", range = [0, 120] }]'}
            rest |= {"ids": '["birth"]'} if "linkage" in there else {}
            study = Study.from_toml("".join(f"{key} = {value}\n" for key, value in rest.items() if key not in there)
                                    + text)
            assert set(there) & {"model", "optimiser", "prediction"} or set(there) <= set(study.model_dump()), text
            study.fit_options()


@pytest.mark.parametrize("page", [page for page in PAGES if page != "README.md"
                                  and any(language == "python" for language, _, _ in blocks(page))])
def test_python_blocks_run(page, monkeypatch):
    """With a smaller model where the page says nothing of it."""
    class Quick(FedCI):
        def __init__(self, study, *given, **named):
            options = {part: SMALLER.get(part, {}) | study.options.get(part, {}) for part in SMALL}
            super().__init__(study.changed(options=options), *given, **named)

    monkeypatch.setattr(fedci, "FedCI", Quick)
    names = {"fedci": fedci}
    for language, text, _ in blocks(page):
        if language == "python":
            exec(compile(text, page, "exec"), names)  # our own pages
    assert len(names) > 2


# ── parsed ──────────────────────────────────────────────────────────────────────────────────────────────────


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
        words = shlex.split(line.partition(" > ")[0].partition(" && ")[0]) if "<<" not in line else []
        if words[:1] not in (["fedci"], ["make"], ["pip"]):
            continue
        if words[0] == "fedci":
            check_fedci(words[1:])
        elif words[0] == "make":
            targets = [word for word in words[1:] if "=" not in word]
            assert all(re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE) for word in targets)
        else:
            for found in re.findall(r"fedci\[([\w,]+)\]", line):
                assert set(found.split(",")) <= set(extras)


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
    for name in ("fedci.Study", "fedci.Result.ate", "fedci.Source"):
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
