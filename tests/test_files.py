"""Where results go: a folder that may be written to, and files that are whole or not there."""

import pytest

from fedci.errors import OutputError
from fedci.files import check_folder, rotate, whole_file, write_new


def test_an_absent_or_empty_folder_is_fine_and_nothing_is_made(tmp_path):
    assert check_folder(tmp_path / "new" / "deep", force=False) == tmp_path / "new" / "deep"
    assert check_folder(tmp_path, force=False) == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_full_folder_needs_force_and_a_file_is_no_folder(tmp_path):
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(OutputError, match="--force"):
        check_folder(tmp_path, force=False)
    assert check_folder(tmp_path, force=True) == tmp_path
    for path in (tmp_path / "result.json", tmp_path / "result.json" / "below"):
        with pytest.raises(OutputError, match="choose another with --out"):
            check_folder(path, force=True)


def test_a_file_takes_its_place_whole_or_the_earlier_one_stands(tmp_path):
    path = tmp_path / "kept"
    with whole_file(path) as file:
        file.write(b"first")
    assert path.stat().st_mode & 0o077 == 0

    def broken():
        with whole_file(path) as file:
            file.write(b"half of the sec")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert path.read_bytes() == b"first"
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]


def test_a_text_for_a_person_is_not_replaced_silently(tmp_path):
    path = tmp_path / "study.toml"
    write_new(path, "a", force=False)
    with pytest.raises(OutputError, match="is there already"):
        write_new(path, "b", force=False)
    write_new(path, "b", force=True)
    assert path.read_text() == "b"


def test_a_log_turns_over_and_whoever_has_it_open_goes_on(tmp_path):
    log = tmp_path / "x.log"
    with log.open("a") as open_log:
        for turn in range(4):
            open_log.write(f"{turn}" * 20)
            open_log.flush()
            rotate(log, most=10, kept=2)
            rotate(log, most=10, kept=2)  # nothing is left to turn over
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.log", "x.log.1", "x.log.2"]
    assert [(tmp_path / name).read_text() for name in ("x.log", "x.log.1", "x.log.2")] == ["", "3" * 20, "2" * 20]
    rotate(tmp_path / "none.log")
