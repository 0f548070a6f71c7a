"""Two studies of breast cancer, where their files are there; and cells of them."""

import os
from pathlib import Path

import pytest

from fedci.benchmark.run import breast

PLACES = [Path(place) for place in (os.environ.get("FEDCI_SURVIVAL", ""), "../shared/data/survival") if place]
FOLDER = next((place for place in PLACES if (place / "gbsg.csv").is_file()), None)


@pytest.mark.skipif(FOLDER is None, reason="the studies' files are not beside the project (set FEDCI_SURVIVAL)")
def test_people_are_those_of_both_studies(tmp_path, monkeypatch):
    rows = breast.read(FOLDER)
    assert rows.site.value_counts().to_dict() == {"rotterdam": 1546, "gbsg": 686}
    assert not rows.isna().any().any()
    assert set(rows["size"]) == {1.0, 2.0, 3.0}
    assert breast.crude(rows[rows.site == "gbsg"], 5.0) == pytest.approx(0.144, abs=0.002)
    monkeypatch.setattr(breast, "METHODS", {"crude": breast.crude})
    monkeypatch.setattr(breast, "RESAMPLED", 3)
    for _ in range(2):
        breast.main(["--data", str(FOLDER), "--methods", "others", "--out", str(tmp_path)])
    assert len(breast.cells(tmp_path)) == 6
