"""The arrows of docs/architecture.md: folders import one way, the two parties never each other; JAX stays out of the
light modules; the page says what the modules say of themselves."""

import ast
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from architecture_page import with_modules

import fedci

ROOT = Path(fedci.__file__).parent
PAGE = ROOT.parents[1] / "docs" / "architecture.md"
TIERS = (
    ("version", "plain", "bounded"),
    ("errors",),
    ("files", "effect"),
    ("study",),
    ("table",),
    ("model", "diagnostics", "privacy"),
    ("protocol",),
    ("site", "coordinator"),
    ("result",),
    ("estimator",),
    ("report", "network", "synthetic"),
    ("mail",),
    ("benchmark",),
    ("cli",),
    ("__main__",),
)
"""A folder (or a module beside the folders) imports from tiers above its own and from itself, never from its equals."""
TIER = {name: number for number, tier in enumerate(TIERS) for name in tier}
LATE = {("result.result", "result.storage")}
"""`Result.save` and `.load` call their storage when used: the file format knows the result, not the other way round."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")


MODULES = {module_of(path): path for path in sorted(ROOT.rglob("*.py")) if module_of(path)}


def imported(path: Path, late: bool) -> set[str]:
    """Modules of fedci that a file imports, in either form; with `late`, also within functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if late else (node for top in tree.body for node in
                                         ([top] if not isinstance(top, ast.If) else []))
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fedci":
            base = (node.module or "").removeprefix("fedci").lstrip(".")
            children = {f"{base}.{alias.name}".lstrip(".") for alias in node.names}
            found |= {child for child in children if child in MODULES} or {base}
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("fedci").lstrip(".") for alias in node.names
                      if alias.name.split(".")[0] == "fedci"}
    return found - {""}


def test_both_forms_of_an_import_are_seen_early_and_late(tmp_path):
    """`import fedci` alone names no module, nor does another package's name that only begins like ours."""
    path = tmp_path / "module.py"
    path.write_text("import fedci\nimport fedcinema.study\nimport numpy, fedci.study.study as plan\n"
                    "from fedci.table import table, columns\nfrom fedci.errors import DataError\n"
                    "from fedci import plain\n"
                    "def late():\n    import fedci.model.rows\n    from fedci.site.site import Site\n")
    early = {"study.study", "table.table", "table.columns", "errors", "plain"}
    assert imported(path, late=False) == early
    assert imported(path, late=True) == early | {"model.rows", "site.site"}


@pytest.mark.parametrize("name", MODULES)
def test_a_folder_imports_only_from_folders_above_it(name):
    own = name.split(".")[0]
    assert own in TIER, f"{own} has no tier"
    others = {other.split(".")[0] for other in imported(MODULES[name], late=True)} - {own}
    assert not {other for other in others if TIER[other] >= TIER[own]}


def test_no_module_needs_itself():
    """CycleError names the circle."""
    graph = {name: imported(path, late=False) - {other for one, other in LATE if one == name}
             for name, path in MODULES.items()}
    assert len(list(TopologicalSorter(graph).static_order())) >= len(MODULES)


def test_no_two_modules_have_one_name():
    """But for a folder's own noun (site/site.py)."""
    names = Counter(path.stem for path in ROOT.rglob("*.py") if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_the_page_says_what_the_modules_say():
    text = PAGE.read_text(encoding="utf-8")
    assert with_modules(text) == text, "run `make architecture`"


@pytest.mark.parametrize("statement", ["import fedci", "from fedci import Study", "import fedci.cli.commands",
                                       "from fedci import Source"])
def test_jax_is_not_loaded_before_a_fit(statement):
    code = f"{statement}; import sys; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_three_files_know_the_engine():
    """Another engine must stay a file's work."""
    knowing = {name for name, path in MODULES.items() for node in ast.walk(ast.parse(path.read_text()))
               if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nvflare"}
    assert knowing == {"network.flare", "network.launcher", "network.provision"}


def test_no_pickle_eval_or_shell_in_the_package():
    banned = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name.split(".")[0] for alias in node.names} | {getattr(node, "module", None)}
                assert not names & banned, name
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "__import__"}, name
            if isinstance(node, ast.keyword) and node.arg in {"allow_pickle", "shell"}:
                assert node.value.value is False, name
