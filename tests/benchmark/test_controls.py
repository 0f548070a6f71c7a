"""The benchmark of negative controls: its data are biased as it says, and it counts what it says."""

import json

import numpy as np
import pytest

from fedci.benchmark import controls


def test_the_hidden_cause_biases_every_outcome_and_sites_share_its_loadings():
    sites = controls.hospitals(0, controls=5, people=4000)
    assert [source.name for source in sites] == ["site-0", "site-1", "site-2"]
    biases = []
    for source in sites:
        table = source.data
        design = np.column_stack([np.ones(len(table)), table.w, table.x1, np.sin(table.x1), table.x2])
        biases.append([np.linalg.lstsq(design, table[name], rcond=None)[0][1] for name in controls.names(5)])
    assert np.ptp(biases, axis=0).max() < 0.25  # six standard errors of a difference between sites of 4000
    assert np.std(np.mean(biases, axis=0)) > 0.1
    assert controls.study(5).diagnostics.negative_controls == ("c1", "c2", "c3", "c4", "c5")


def test_shares_are_over_studies_and_over_all_controls():
    rows = [{"plain": False, "calibrated": True, "controls_plain": 3, "controls_calibrated": 9, "controls": 10,
             "plain_width": 0.2, "calibrated_width": 1.0},
            {"plain": True, "calibrated": True, "controls_plain": 1, "controls_calibrated": 10, "controls": 10,
             "plain_width": 0.4, "calibrated_width": 2.0}]
    assert controls.covered(rows) == pytest.approx({
        "plain": 0.5, "calibrated": 1.0, "controls_plain": 0.2, "controls_calibrated": 0.95, "plain_width": 0.3,
        "calibrated_width": 1.5})


@pytest.mark.slow
def test_with_thirty_controls_under_bias_calibrated_intervals_cover(monkeypatch):
    """Of 62 outcomes with known truth; were the coverage 0.95, fewer than 0.85 of them were one chance in 700."""
    rows = list(controls.run(2))
    hits = sum(row["controls_calibrated"] + row["calibrated"] for row in rows)
    assert hits >= 0.85 * 62
    assert sum(row["controls_plain"] + row["plain"] for row in rows) < 0.7 * 62
    at_sites = [site for row in rows for site in row["at_sites"]]
    assert len(at_sites) == 6
    assert sum(site["controls_calibrated"] + site["calibrated"] for site in at_sites) >= 0.85 * 186


def test_what_is_on_disk_is_not_made_again_and_sites_are_counted_apart(tmp_path, monkeypatch, capsys):
    def made(seed, count):
        each = {"plain": False, "calibrated": seed > 0, "plain_width": 0.4, "calibrated_width": 1.4,
                "controls_plain": 1, "controls_calibrated": 9, "controls": 10}
        made.seeds.append(seed)
        return {"seed": seed, **each, "at_sites": [each | {"calibrated": True}] * 3}

    made.seeds = []
    monkeypatch.setattr(controls, "replication", made)
    for replications in ("1", "2"):
        monkeypatch.setattr("sys.argv", ["controls", "--replications", replications, "--out", str(tmp_path)])
        controls.main()
    assert made.seeds == [0, 1]
    found = json.loads((tmp_path / "controls.json").read_text())
    assert (found["covered"]["calibrated"], found["covered_at_sites"]["calibrated"]) == (0.5, 1.0)
    assert len(found["rows"]) == 2
    assert "covered_at_sites" in capsys.readouterr().out
