"""IHDP is the trial's 747 children; missing files are explained."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedci.errors import SourceError
from fedci.synthetic import ihdp

SHARED = Path(__file__).parents[3] / "shared" / "data" / "ihdp"
IHDP = Path(os.environ.get(ihdp.VARIABLE, SHARED))
needs_ihdp = pytest.mark.skipif(not IHDP.is_dir(), reason=f"the IHDP files are not in {ihdp.VARIABLE} or shared/")


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


def test_missing_ihdp_files_are_explained(tmp_path, monkeypatch):
    monkeypatch.delenv(ihdp.VARIABLE, raising=False)
    with pytest.raises(SourceError, match=ihdp.VARIABLE):
        ihdp.records(0)
    with pytest.raises(SourceError, match="ihdp_npci_1.csv"):
        ihdp.records(0, tmp_path)
    (tmp_path / "ihdp_npci_1.csv").write_text("1,2\n3,4\n")
    with pytest.raises(SourceError, match="shape"):
        ihdp.records(0, tmp_path)
