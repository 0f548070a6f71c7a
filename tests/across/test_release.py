"""What a release holds: every file that the package reads, extras that agree, hashes of what is tested, an SBOM."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from fedci.version import __version__

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "release" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_is_what_users_need_and_nothing_of_those_who_work_on_it():
    [line] = EXTRAS["all"]
    assert set(re.fullmatch(r"fedci\[(.*)\]", line)[1].split(",")) == set(EXTRAS) - {
        "all", "docs", "dev", "benchmark", "assurance"}


def test_hashed_versions_are_those_that_are_tested():
    tested = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    names = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in tested.items()}
    lines = (ROOT / "constraints-hashed.txt").read_text().splitlines()
    assert lines[0].startswith("# For Python 3.")
    for line in lines[1:]:
        found = re.fullmatch(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line)
        assert found, line
        assert names[found[1]] == found[2], line
    there = {line.partition("==")[0] for line in lines[1:]}
    assert {"jax", "numpy", "nvflare", "python-docx", "duckdb"} <= there


def test_the_hashes_are_those_of_pips_report():
    made = script("hashes").lines({
        "environment": {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64"},
        "install": [{"metadata": {"name": name, "version": "1.0"},
                     "download_info": {"archive_info": {"hashes": {"sha256": "a" * 64}}}}
                    for name in ("Typing_Extensions", "fedci")]})
    assert made[1:] == [f"typing-extensions==1.0 --hash=sha256:{'a' * 64}"]


def test_the_sbom_names_all_that_the_package_needs_and_is_the_same_again():
    sbom = script("sbom")
    made = sbom.sbom("fedci", frozenset())
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
    names = {part["name"] for part in made["components"]}
    assert {"jax", "jaxlib", "numpy", "pydantic", "pydantic-core", "cryptography"} <= names
    refs = {part["bom-ref"] for part in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    assert {one["ref"] for one in made["dependencies"]} == refs
    assert all(set(one["dependsOn"]) <= refs for one in made["dependencies"])
    assert json.dumps(made) == json.dumps(sbom.sbom("fedci", frozenset()))


def test_one_version_stands_everywhere():
    """In the package, the citation, the R package, the changelog's heading and the upgrade notes; with its day."""
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in cited
    assert f"\nVersion: {__version__}\n" in (ROOT / "r" / "DESCRIPTION").read_text()
    heading = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading[1] == __version__
    assert f'\ndate-released: "{heading[2]}"\n' in cited
    assert (ROOT / "docs" / "upgrading.md").read_text().startswith(f"# Upgrading from 0.1.0 to {__version__}\n")


def test_the_readmes_commands_are_found():
    lines = script("readme").commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert lines[0] == "fedci simulate --out hospitals"
    assert all(line.startswith("fedci ") and "#" not in line for line in lines)


def test_a_document_that_says_other_numbers_than_the_result_is_found(tmp_path):
    """Each number turned, another site, another number of people, a row left out."""
    docx = pytest.importorskip("docx")
    hour = script("first_hour")
    effect = {"estimand": "ATE", "site": "all", "people": 1180, "mean": -8.5562, "sd": 0.9978, "low": -10.5117,
              "high": 12.004}
    right = ["everybody", "all", "1,180", "−8.56", "0.998", "−10.5 to 12.00"]

    def found(*rows):
        made = docx.Document()
        table = made.add_table(0, len(right))
        for row in rows:
            for cell, words in zip(table.add_row().cells, row, strict=True):
                cell.text = words
        made.save(tmp_path / "report.docx")
        return hour.missing(hour.rows_of(tmp_path / "report.docx"), [effect])

    assert found(["average over", "site", "people", "effect", "sd", "95% interval"], right) == []
    assert found() == ["ATE at all"]
    for place, words in ((0, "the treated"), (1, "lyon"), (2, "1,181"), (3, "8.56"), (3, "−8.57"), (4, "0.997"),
                         (5, "−10.6 to 12.00"), (5, "−10.5 to 12.01"), (5, "−10.5")):
        assert found([*right[:place], words, *right[place + 1:]]) == ["ATE at all"], words


@pytest.mark.slow
def test_a_newcomers_first_hour_ends_with_a_report(tmp_path):
    """Four parties of a study by files, each command a process of its own."""
    program = tmp_path / "bin" / "fedci"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT / "src"}" exec "{sys.executable}" -m fedci "$@"\n')
    program.chmod(0o755)
    (tmp_path / "hour").mkdir()
    script("first_hour").walk(tmp_path / "hour", program.parent)
    assert len(list((tmp_path / "hour" / "answers").iterdir())) > 3 * 10
    assert {"report.html", "result.json"} <= {path.name for path in (tmp_path / "hour" / "result").iterdir()}


@pytest.mark.slow
def test_the_wheel_holds_every_file_that_the_package_reads(tmp_path):
    """Built from the tree as it stands, without isolation."""
    pytest.importorskip("build")
    call = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "-w", str(tmp_path), str(ROOT)]
    done = subprocess.run(call, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""}, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        held = set(wheel.namelist())
    src = ROOT / "src"
    there = {str(path.relative_to(src)) for path in (src / "fedci").rglob("*")
             if path.is_file() and "__pycache__" not in path.parts}
    assert there - held == set()
