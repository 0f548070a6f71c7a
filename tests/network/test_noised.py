"""A study under `standard`, its sums with noise, over real processes on loopback: the result is that by files, to the
bit, and an auditor recomputes the ledgers."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from fedci import Result
from fedci.network import kit, processes, rehearsal
from fedci.network.provision import new_network
from fedci.site import floors, store
from support.commanded import told
from support.mailed import Mailed
from support.noised import plan, tables

LONGEST = 240


@pytest.mark.slow
def test_a_study_under_standard_over_the_network_is_that_by_files_and_is_recomputed(tmp_path, capsys):
    study, rows = plan(), tables()
    out = tmp_path / "network"
    new_network(study, (), "localhost", out / "kits", rehearsal.free_port())
    floors.write_floors(floors.Floors(), out / rehearsal.FLOORS)
    study.write(out / "study.toml")
    mailed = Mailed(tmp_path / "mailed", study, rows)
    (mailed.out / "kits" / floors.FILE).unlink()
    for site, table in rows.items():
        (out / site).mkdir()
        table.to_csv(out / site / "cohort.csv", index=False)
        store.create(out / site / "store")  # the noise follows from it: by files each site has a copy
        shutil.copytree(out / site / "store", mailed.out / site / "store")
    sites = [rehearsal.start_site(out, site, number) for number, site in enumerate(rows)]
    try:
        done = subprocess.run([sys.executable, "-m", "fedci", "coordinator", "run", "--kit", out / "kits/coordinator",
                               out / "study.toml", "--out", out / "result", "--wait", "200"], capture_output=True,
                              text=True, check=False, timeout=LONGEST)
        assert done.returncode == 0, done.stdout + done.stderr
        for site in sites:
            assert site.wait(60) == 0
    finally:
        for site in sites:
            rehearsal.stop(site)
        for party in ("coordinator", *rows):
            processes.end_leftover(kit.read(out / "kits" / party))
    mailed.go()
    one, other = Result.load(out / "result"), mailed.found()
    assert np.array_equal(one.outcome.fit.theta, other.outcome.fit.theta)
    assert np.array_equal(one.ate().means, other.ate().means)
    low, high = one.ate().interval()
    assert low < 1.0 < high
    for site in rows:
        code, said, err = told(capsys, "ledger", "verify", out / "kits" / site, "--data", out / site / "cohort.csv")
        assert (code, err) == (0, ""), said + err
