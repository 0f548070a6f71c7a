"""A study of 0 and 1 with subgroups and decisions over real processes on loopback: it is that of one process, to the
bit, and what left is in the sites' ledgers."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI, Result, Source, Study
from fedci.network import kit, processes, rehearsal
from fedci.network.provision import new_network
from fedci.site import floors, ledger

LONGEST = 300
STUDY = Study(
    treatment="drug", outcome={"name": "died", "type": "binary"}, covariates={"age": {}, "male": "binary"},
    sites=rehearsal.SITES, policy={"name": "simulation", "secure_sum": True},
    subgroups={"male": "male"}, decisions={"along": ["age", "male"], "better": "lower"},
    options={"model": {"directions": 1, "knots": 3, "landmarks": 4}, "optimiser": {"rounds": 4, "draws": 4},
             "prediction": {"draws": 32}})


def table(number: int) -> pd.DataFrame:
    rng = np.random.default_rng((41, number))
    age, male, drug = rng.normal(60, 10, 40), np.arange(40) // 2 % 2, np.arange(40) % 2
    risk = 1 / (1 + np.exp(-(0.05 * (age - 60) - 0.9 * drug)))
    return pd.DataFrame({"age": age, "male": male, "drug": drug, "died": (rng.uniform(size=40) < risk).astype(int)})


@pytest.mark.slow  # by files, the same masks and codec: across/test_outcomes.py; over processes: test_network.py
def test_networked_it_is_the_study_in_one_process(tmp_path):
    tables = {site: table(number) for number, site in enumerate(rehearsal.SITES)}
    here = FedCI(STUDY).fit([Source(site, rows) for site, rows in tables.items()])  # and compiles what all will run
    new_network(STUDY, (), "localhost", tmp_path / "kits", rehearsal.free_port())
    floors.write_floors(floors.based_on("simulation", "people of nobody"), tmp_path / rehearsal.FLOORS)
    STUDY.write(tmp_path / "study.toml")
    for site, rows in tables.items():
        (tmp_path / site).mkdir()
        rows.to_csv(tmp_path / site / "cohort.csv", index=False)
    try:
        with rehearsal.sites(tmp_path) as running:
            done = subprocess.run([sys.executable, "-m", "fedci", "coordinator", "run", "--kit",
                                   tmp_path / "kits" / "coordinator", tmp_path / "study.toml", "--out",
                                   tmp_path / "result", "--wait", "200"], capture_output=True, text=True, check=False,
                                  timeout=LONGEST)
            assert done.returncode == 0, done.stdout + done.stderr
            assert [site.wait(60) for site in running.values()] == [0, 0, 0]
    finally:
        for party in ("coordinator", *tables):
            processes.end_leftover(kit.read(tmp_path / "kits" / party))
    away = Result.load(tmp_path / "result")
    assert away.outcome.fit.theta.tobytes() == here.outcome.fit.theta.tobytes()
    assert away.risks().treated.tobytes() == here.risks().treated.tobytes()
    assert away.contrasts().equals(here.contrasts())
    assert json.dumps(away.plain()["decisions"]) == json.dumps(here.plain()["decisions"])
    for site in tables:
        told = ledger.read(tmp_path / "kits" / site)
        assert ledger.verify(tmp_path / "kits" / site).ok
        assert any("masked" in entry["sums"] and entry["phase"] == "checks" for entry in told)
