"""What is asked of a result by commands."""

import json

from support.commanded import told


def test_the_commands_show_and_open(blinded, tmp_path, capsys):
    blinded().save(tmp_path / "out")
    code, out, _ = told(capsys, "diagnostics", tmp_path / "out")
    assert code == 0
    assert "Balance" in out
    assert "Blinded" in out
    assert "E-value" not in out
    code, out, _ = told(capsys, "diagnostics", tmp_path / "out", "--json")
    assert (code, json.loads(out)["blinded"], json.loads(out)["sensitivity"]) == (0, True, None)
    code, out, err = told(capsys, "unblind", tmp_path / "out", "--by", "A. Statistician", "--reason", "a test")
    assert code == 0, err
    assert "On average treatment changes the outcome by" in out
    assert "E-value" in out
    opened = json.loads((tmp_path / "out" / "result.json").read_text())["opened"]
    assert (opened["by"], opened["reason"]) == ("A. Statistician", "a test")
    assert (tmp_path / "out" / "effects.csv").exists()
    code, _, err = told(capsys, "diagnostics", tmp_path)
    assert (code, "cannot be read" in err) == (2, True)
