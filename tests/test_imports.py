"""The arrows of docs/architecture.md: a module imports only from those above it; JAX stays out of the light ones."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fedci

ROOT = Path(fedci.__file__).parent
ORDER = [
    "version", "errors", "options", "presets", "folder", "arguments", "privacy.policy", "privacy.identity",
    "study_file", "study",
    "columns", "database", "data", "privacy.linkage", "privacy.agreement", "privacy.secure_sum", "privacy.released",
    "moments", "privacy.dp", "programs",
    "model", "model.kernels", "model.means", "model.wishart", "model.covariance", "model.basis", "model.description",
    "model.shared", "model.parallel", "model.inducing", "model.sparse",
    "model.structure", "model.posterior", "model.elbo", "model.evidence", "model.padding", "model.law",
    "model.predict", "model.drivers", "model.leave_one_out", "optimise", "estimands",
    "diagnostics", "diagnostics.verdict", "diagnostics.counts", "diagnostics.propensity", "diagnostics.balance",
    "diagnostics.overlap", "diagnostics.heterogeneity", "diagnostics.sensitivity", "diagnostics.fit",
    "diagnostics.refute", "diagnostics.record", "messages", "federation.ask", "federation.stages",
    "federation.shared", "federation.rounds", "federation.trajectory", "federation.course", "federation.prepared",
    "federation.people", "federation.site_linkage",
    "federation.site_sums", "federation.site_noise", "federation.site_diagnostics", "federation.refuting",
    "federation.site_limits",
    "federation.site", "federation.engine", "federation.retry",
    "federation.talk", "federation.secure", "privacy.ledger", "federation.door", "ledger_command",
    "federation.linkage", "federation.diagnostics", "federation.checkpoint", "federation.coordinator", "refits",
    "account", "result", "storage", "estimator", "proposal", "release", "prediction", "comparison", "screen",
    "report.svg", "report.record", "report.slots", "report.plots", "report.aggregates", "report.facts", "report.page",
    "network.kit", "network.certificates", "network.hardening",
    "network.leaving", "network.provision", "network.processes", "network.party", "network.flare", "network.command",
    "network.terminal", "network.demo", "datasets", "ihdp", "progress", "simulated", "demo",
    "benchmark.learners.estimate", "benchmark.learners.shared", "benchmark.learners.regression",
    "benchmark.learners.bayesian_trees", "benchmark.learners.boosting", "benchmark.learners.forests",
    "benchmark.learners.cevae", "benchmark.baselines", "benchmark.oracle", "benchmark.cells", "benchmark.suites",
    "benchmark.protocols", "benchmark.methods", "benchmark.presets", "benchmark.own_process", "benchmark.speed",
    "benchmark.authors", "benchmark.linkage", "benchmark.network", "benchmark.scale", "benchmark.streaming",
    "benchmark.hot", "benchmark.secure",
    "benchmark.runner", "benchmark.published", "benchmark.summary", "benchmark.markdown", "benchmark.tables",
    "benchmark.intervals", "benchmark.sheet", "benchmark.coverage", "benchmark.ablation", "benchmark.figures",
    "benchmark.scale_page", "benchmark.page", "benchmark.command", "cli", "__main__",
]
LATE = {("result", "storage")}
"""`Result.save` and `.load` call their storage when used: the file format knows the result, not the other way round."""


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        if name and path.read_text().strip():
            yield name, path


def imported(path: Path) -> set[str]:
    """Names of fedci modules that a file imports, wherever the statement stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fedci":
            base = (node.module or "").removeprefix("fedci").lstrip(".")
            children = {f"{base}.{alias.name}".lstrip(".") for alias in node.names}
            found |= {c for c in children if c in ORDER} or {base}
    return found - {""}


@pytest.mark.parametrize("name, path", list(modules()), ids=[name for name, _ in modules()])
def test_a_module_imports_only_from_those_above_it(name, path):
    assert name in ORDER, f"{name} has no place in the order of docs/architecture.md"
    below = {other for other in imported(path) if ORDER.index(other) >= ORDER.index(name)}
    assert not {(name, other) for other in below} - LATE


@pytest.mark.parametrize("statement", ["import fedci", "from fedci import Study", "import fedci.cli",
                                       "from fedci import Source"])
def test_jax_is_not_loaded_before_a_fit(statement):
    code = f"{statement}; import sys; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_two_files_know_the_engine():
    """Another engine must stay a file's work."""
    knowing = {name for name, path in modules() for node in ast.walk(ast.parse(path.read_text()))
               if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nvflare"}
    assert knowing == {"network.flare", "network.provision"}


def test_no_pickle_eval_or_shell_in_the_package():
    banned = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    for name, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name.split(".")[0] for alias in node.names} | {getattr(node, "module", None)}
                assert not names & banned, name
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "__import__"}, name
            if isinstance(node, ast.keyword) and node.arg in {"allow_pickle", "shell"}:
                assert node.value.value is False, name
