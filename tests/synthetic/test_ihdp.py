"""IHDP is the trial's 747 children; missing files are explained."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedci.errors import SourceError
from fedci.synthetic import ihdp

SHARED = Path(__file__).parents[3] / "shared" / "data" / "ihdp"
IHDP = Path(os.environ.get(ihdp.VARIABLE, SHARED))
MISSING = Path(os.environ.get(ihdp.MISSING_VARIABLE, SHARED.with_name("ihdp-missing")))
needs_ihdp = pytest.mark.skipif(not IHDP.is_dir(), reason=f"the IHDP files are not in {ihdp.VARIABLE} or shared/")
needs_missing = pytest.mark.skipif(not MISSING.is_dir(),
                                   reason=f"the files of ihdp-missing are not in {ihdp.MISSING_VARIABLE} or shared/")


@needs_ihdp
def test_ihdp_is_the_trial():
    people = ihdp.records(0, IHDP)
    assert people.x.shape == (747, 25)
    assert people.w.sum() == 139
    assert people.cate[people.w == 1].mean() == pytest.approx(4.0, abs=0.1)  # ATT = 4 by construction
    assert set(people.x[:, 13]) == {0.0, 1.0}


@needs_ihdp
def test_ihdp_in_thirds_and_by_site():
    whole = ihdp.records(3, IHDP)
    contiguous, shuffled = ihdp.thirds(3, IHDP), ihdp.thirds(3, IHDP, shuffled=True)
    np.testing.assert_array_equal(contiguous[1].test.y, whole.y[249 + 83:249 + 166])
    everyone = np.concatenate([part.y for s in shuffled for part in (s.train, s.test, s.validation)])
    np.testing.assert_array_equal(np.sort(everyone), np.sort(whole.y))
    sites = ihdp.trial_sites(3, IHDP)
    assert sorted(len(s.train) + len(s.test) for s in sites) == sorted([101, 101, 117, 61, 55, 96, 118, 98])
    assert all(s.train.w.sum() >= 2 for s in sites)
    assert sites[0].train.x.shape[1] == 18


@needs_ihdp
def test_ihdp_as_causalrff_cut_it():
    whole, sources = ihdp.records(2, IHDP), ihdp.causalrff(2, IHDP)
    assert [[len(part) for part in (s.train, s.test, s.validation)] for s in sources] == [[50, 100, 99]] * 3
    np.testing.assert_array_equal(sources[1].train.y, whole.y[249:299])
    np.testing.assert_array_equal(sources[2].test.x, whole.x[548:648])


@needs_ihdp
@needs_missing
def test_ihdp_with_missing_values_is_the_same_trial():
    """Six sources of 124 in file order; x1 … x4 lack values, all else is as in the whole files."""
    whole, people, sources = ihdp.records(1, IHDP), ihdp.incomplete_records(1, MISSING), ihdp.incomplete(1, MISSING)
    holes = np.isnan(people.x)
    assert not holes[:, 4:].any()
    np.testing.assert_allclose(holes[:, :4].mean(0), 0.46, atol=0.03)
    assert [round(np.isnan(ihdp.incomplete_records(r, MISSING).x[:, :4]).mean(), 3) for r in (2, 8)] == [0.933, 0.003]
    np.testing.assert_allclose(people.x[~holes], whole.x[~holes], rtol=1e-12)
    np.testing.assert_allclose(people.cate, whole.cate, rtol=1e-12)
    assert [[len(part) for part in (s.train, s.test, s.validation)] for s in sources] == [[80, 24, 20]] * 6
    np.testing.assert_array_equal(sources[3].test.y, people.y[3 * 124 + 80:3 * 124 + 104])


def test_unobserved_values_are_blanked(tmp_path):
    a = np.tile([1.0, 5.0, 4.0, 4.5, 5.5, *np.ones(25), 1, 0, 1, 1], (747, 1))
    np.savetxt(tmp_path / "ihdp_missing_npci_1.csv", a, delimiter=",")
    people = ihdp.incomplete_records(0, tmp_path)
    assert np.isnan(people.x[:, 1]).all()
    assert np.isnan(people.x).sum() == 747
    assert (people.y0 == 4.0).all()
    assert (people.x[:, 13] == 0.0).all()


def test_missing_ihdp_files_are_explained(tmp_path, monkeypatch):
    monkeypatch.delenv(ihdp.VARIABLE, raising=False)
    with pytest.raises(SourceError, match=ihdp.VARIABLE):
        ihdp.records(0)
    with pytest.raises(SourceError, match="ihdp_npci_1.csv"):
        ihdp.records(0, tmp_path)
    (tmp_path / "ihdp_npci_1.csv").write_text("1,2\n3,4\n")
    with pytest.raises(SourceError, match="shape"):
        ihdp.records(0, tmp_path)
    monkeypatch.delenv(ihdp.MISSING_VARIABLE, raising=False)
    with pytest.raises(SourceError, match=f"ihdp_missing_npci_1.csv .* --ihdp-missing or in {ihdp.MISSING_VARIABLE}"):
        ihdp.incomplete(0)
