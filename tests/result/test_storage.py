"""A result on disk is the result."""

import json
import stat
from dataclasses import replace

import numpy as np
import pytest

from fedci import Result
from fedci.errors import OutputError, UsageError
from fedci.result.replacement import DIGEST, FILES
from tests_support import frame


@pytest.fixture
def result(classic):
    return classic


@pytest.fixture
def folder(result, tmp_path):
    result.save(tmp_path / "out")
    return tmp_path / "out"


def test_loaded_equals_saved(result, folder):
    back = Result.load(folder)
    new = frame(5, 60)
    assert back.study == result.study
    assert back.summary() == result.summary()
    for site in (None, *result.sites):
        np.testing.assert_array_equal(back.effect(new, site), result.effect(new, site))
        assert back.ate(site).interval() == result.ate(site).interval()
    np.testing.assert_array_equal(back.ite("site-0"), result.ite("site-0"))
    assert back.outcome.fit.rounds == result.outcome.fit.rounds


def test_private_files_are_private(folder):
    for name in ("rows.npz", "people.csv"):
        assert stat.S_IMODE((folder / "sites" / "site-0" / name).stat().st_mode) == 0o600


def test_without_a_sites_folder_its_people_cannot_be_predicted(folder):
    for file in (folder / "sites" / "site-1").iterdir():
        file.unlink()
    back = Result.load(folder)
    assert back.ate("site-1").sd > 0
    assert np.isfinite(back.effect(frame(3, 61), site="site-0")).all()
    with pytest.raises(UsageError, match="rows of site 'site-1' are not here"):
        back.effect(frame(3, 61), site="site-1")
    with pytest.raises(UsageError, match="not here"):
        back.ite("site-1")


def test_the_coordinators_files_hold_nobody(result, folder):
    """No row of a site's table stands in result.json or arrays.npz."""
    values = {f"{v!r}" for v in frame(40, 0).age}
    text = (folder / "result.json").read_text()
    assert not any(v in text for v in values)
    with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
        for name in arrays:
            assert not np.isin(frame(40, 0).y, arrays[name]).any(), name
            assert 40 not in arrays[name].shape, name


def test_versions_seed_and_verdict_are_recorded(result, folder):
    facts = json.loads((folder / "result.json").read_text())
    assert facts["seed"] == 0
    assert facts["verdict"] == result.verdict
    assert {"fedci", "jax", "numpy", "python"} <= facts["versions"].keys()


def test_an_earlier_result_is_not_overwritten_silently(result, folder):
    before = (folder / "result.json").read_text()
    with pytest.raises(OutputError, match="--force"):
        result.save(folder)
    assert (folder / "result.json").read_text() == before
    result.save(folder, force=True)
    assert not list(folder.glob(".new-*"))


def test_nowhere_to_write(result, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="needs a folder"):
        result.save(tmp_path / "file")


def test_a_result_of_another_format_says_who_wrote_it(folder):
    facts = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(facts | {"format": 7, "versions": {"fedci": "3.1.4"}}))
    with pytest.raises(OutputError, match=r"written by fedci 3\.1\.4 in format 7.*reads format 1"):
        Result.load(folder)


def test_a_result_of_the_earlier_law_is_refused_with_the_version_that_wrote_it(folder):
    """θ of 0.1.0 had a correlation for each block of the arms, and no landmarks."""
    facts = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    facts = {name: part for name, part in facts.items() if name not in (FILES, DIGEST)}
    facts["versions"]["fedci"] = "0.1.0"
    facts["options"]["model"] = {"family": "shared", "knots": 3}
    (folder / "result.json").write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(OutputError, match=r"written by fedci 0\.1\.0 with the earlier law of the model 'shared'"):
        Result.load(folder)


def test_a_result_of_version_0_1_0_is_read_with_its_sites_own_moments(result, folder):
    """It had four moments of each column of each site: people and pooled columns follow from them."""
    from fedci.table.moments import describe

    with np.load(folder / "arrays.npz") as file:
        now = dict(file)
    old = {name: part for name, part in now.items() if name not in ("people", "withheld", "columns", "columns_count")}
    for site, people in result.people.items():
        t = people.table
        parts = {"x": t.x, "y0": t.y[t.w == 0][:, None], "y1": t.y[t.w == 1][:, None], "w": t.w[:, None]}
        for name, part in parts.items():
            found = describe(part.astype(float))
            old |= {f"moments/{site}/{name}": found.values, f"moments/{site}/{name}_count": found.count}
        old |= {f"moments/{site}/{flag}": np.zeros(t.x.shape[1], bool) for flag in ("suppressed", "incomplete")}
    np.savez(folder / "arrays.npz", **old)
    facts = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    facts = {name: part for name, part in facts.items() if name not in (FILES, DIGEST)}
    (folder / "result.json").write_text(json.dumps(facts), encoding="utf-8")
    back = Result.load(folder)
    assert back.outcome.layout.people == result.outcome.layout.people
    np.testing.assert_allclose(back.outcome.layout.columns.values[:2], result.outcome.layout.columns.values[:2],
                               rtol=1e-12)
    assert not back.outcome.layout.withheld.any()
    assert back.summary() == result.summary()


def test_what_is_loaded_holds_people_and_no_site(result, folder):
    """Their rows, where these stand in the site's table, and what their effects need."""
    back = Result.load(folder)
    for name, people in result.people.items():
        again = back.people[name]
        np.testing.assert_array_equal(again.rows, people.rows)
        for part in ("x", "w", "y"):
            np.testing.assert_array_equal(getattr(again.table, part), getattr(people.table, part))
        assert again.q.jitter == people.q.jitter
        np.testing.assert_array_equal(again.cate().means, people.cate().means)


@pytest.mark.parametrize("harm", [lambda f: f.write_bytes(f.read_bytes()[:100]), lambda f: f.write_text("{}"),
                                  lambda f: f.unlink()])
@pytest.mark.parametrize("name", ["result.json", "arrays.npz"])
def test_a_damaged_result_is_said_to_be_one(folder, name, harm):
    harm(folder / name)
    with pytest.raises(OutputError):
        Result.load(folder)


def test_words_in_a_folder_that_anybody_may_have_written_are_cleaned(result, tmp_path):
    replace(result, outcome=replace(result.outcome, warnings=("\x1b[31mred\u202e", "x" * 10**5))).save(tmp_path / "out")
    first, second = Result.load(tmp_path / "out").outcome.warnings
    assert first == "red"
    assert len(second) <= 500
