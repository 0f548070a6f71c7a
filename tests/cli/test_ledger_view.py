"""`fedci ledger`: totals, the head, the first broken line; JSON for scripts."""

import io
import json

import pytest
from rich.console import Console

from fedci.cli.ledger_view import show_ledger
from fedci.errors import OutputError
from fedci.site import floors, ledger
from fedci.site.ledger import LEDGER, Ledger, Left
from support.commanded import told
from support.written import lines, written


def test_a_ledger_for_scripts(tmp_path, capsys):
    with Ledger(tmp_path / "lyon") as ledger:
        ledger.append(Left(run="run", round=1, phase="moments", request="AskMeans", request_sha256="0" * 64,
                           reply="Reply", reply_sha256="1" * 64, bytes=100, sums={"x": [4, 3]}))
    code, out, _ = told(capsys, "ledger", tmp_path / "lyon", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["count"], found["head"]) == (1, ledger.head.hash)
    assert found["phases"][0] | {"phase": "moments", "numbers": 12} == found["phases"][0]


def shown(folder) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    show_ledger(folder, console)
    return console.export_text()


def test_the_command_shows_totals_and_the_head(tmp_path):
    head = written(tmp_path)[-1]["hash"]
    text = shown(tmp_path)
    assert f"the chain is whole: 4 entries\nhead {head}" in text
    rows = [line.replace("│", " ").split() for line in text.splitlines()]
    assert "what left this site, to the coordinator" in text
    [fit] = [row for row in rows if row[:1] == ["fit"]]
    assert fit[1] == ledger.read(tmp_path)[0]["time"][2:10]
    assert fit[-4:] == ["4", "0", "28", "410"]
    assert [row[-4:] for row in rows if row[:1] == ["all"]] == [["4", "0", "28", "410"]]
    assert "run r1" in text
    assert "fit: failed, gradient" in text
    assert max(map(len, text.splitlines())) <= 80


def test_what_is_said_below_the_table_fits_80_columns_too(tmp_path):
    loosened = {"min_cell": 5, "min_rows": 3, "min_arm_rows": 2, "min_difference": 4, "max_cohorts": 99}
    with ledger.Ledger(tmp_path) as kept:
        floors.note_floors(kept, floors.allowed(floors.Floors(), loosened, "a long reason of the board, 12 March"))
        kept.append(Left(run="run" * 10, round=1, phase="moments", request="AskMeans", request_sha256="0" * 64,
                         reply="Reply", reply_sha256="1" * 64, bytes=100, sums={"own/people": [2]},
                         values={"own/people": [70000.0, 30000.0]}))
    (tmp_path / "kit.json").write_text(json.dumps({"host": "study.example.org", "port": 8002, "study_hash": "a" * 64}))
    said = shown(tmp_path)
    assert max(map(len, said.splitlines())) <= 80
    assert f"to the coordinator at study.example.org:8002, study {'a' * 64}" in " ".join(said.split())


def test_the_command_names_the_first_broken_line(tmp_path):
    written(tmp_path)
    whole = lines(tmp_path)
    (tmp_path / LEDGER).write_bytes(b"".join([whole[0], *whole[2:]]))
    with pytest.raises(OutputError, match="broken at line 2"):
        shown(tmp_path)


def test_the_command_wants_a_ledger(tmp_path):
    with pytest.raises(OutputError, match="holds no ledger"):
        shown(tmp_path)


def test_what_the_operator_loosened_is_shown_with_its_reason(tmp_path, capsys):
    with ledger.Ledger(tmp_path) as kept:
        floors.note_floors(kept, floors.allowed(floors.Floors(), {"min_cell": 5}, "board 12/3"))
    show_ledger(tmp_path)
    assert "looser than 'standard': min_cell = 5 (board 12/3)" in " ".join(capsys.readouterr().out.split())
    show_ledger(tmp_path, as_json=True)
    (line,) = json.loads(capsys.readouterr().out)["policy"]
    assert line["loosened"]["min_cell"]["reason"] == "board 12/3"
