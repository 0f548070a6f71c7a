"""What a study office types, from a file to a document."""

import json
import sys

import pytest

from support.commanded import told
from support.reported import plan


def test_a_plan_is_written_from_the_study_file_alone(tmp_path, capsys):
    asked = plan()
    asked.write(tmp_path / "study.toml")
    code, out, _ = told(capsys, "protocol", tmp_path / "study.toml", "--out", tmp_path / "plan.html")
    assert code == 0
    assert asked.hash() in out
    assert "for the authors" in out
    assert asked.hash() in (tmp_path / "plan.html").read_text()
    code, _, err = told(capsys, "protocol", tmp_path / "study.toml", "--out", tmp_path / "plan.html")
    assert code == 2
    assert "--force" in err


def test_a_plan_in_word_as_json_and_of_no_known_form(tmp_path, capsys):
    pytest.importorskip("docx")
    plan().write(tmp_path / "study.toml")
    code, out, _ = told(capsys, "protocol", tmp_path / "study.toml", "--out", tmp_path / "plan.docx", "--json")
    assert code == 0
    assert json.loads(out)["format"] == "docx"
    assert (tmp_path / "plan.docx").read_bytes()[:2] == b"PK"
    assert told(capsys, "protocol", tmp_path / "study.toml", "--out", tmp_path / "plan.odt")[0] == 2


def test_a_plan_needs_no_jax(tmp_path):
    import subprocess

    plan().write(tmp_path / "study.toml")
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "fedci", "protocol", "study.toml"], cwd=tmp_path,
                          capture_output=True, text=True, check=True, timeout=60)
    assert " jax" not in done.stderr


def test_a_result_is_shown_in_words_and_as_json(tmp_path, capsys):
    from support.reported import hospital
    from tests_support import made_result

    result = made_result(plan(), {"lyon": hospital(60, 0), "oslo": hospital(50, 1)})
    result.save(tmp_path / "result")
    code, out, _ = told(capsys, "show", tmp_path / "result", "--json", "--alpha", "0.1")
    found = json.loads(out)
    assert code == 0
    assert found["study_hash"] == plan().hash()
    assert (found["effects"][0]["low"], found["effects"][0]["high"]) == result.ate().interval(0.1)
    assert "On average treatment" in told(capsys, "show", tmp_path / "result")[1]
