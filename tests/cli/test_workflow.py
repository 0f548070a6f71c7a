"""A study from files and a terminal: what is wrong is told at once, and what was stopped goes on."""

import json
import signal
import stat

import numpy as np
import pandas as pd
import pytest

from fedci import Result, Source
from fedci.cli import progress
from fedci.estimator import FedCI
from support.commanded import SHORT, told
from tests_support import frame, study


# ── run: stopped and gone on ────────────────────────────────────────────────────────────────────────────────
def test_a_run_that_is_stopped_goes_on_to_the_same_bits(place, tmp_path, capsys, monkeypatch):
    """Ctrl-C, as a real signal in the sixth round: one line says how to go on, and the same command does."""
    sites = [part for name in "ab" for part in ("--site", f"{name}={place}/{name}.csv")]
    call = ["run", place / "study.toml", *sites, "--out", tmp_path / "out"]
    shown = progress._Show.__call__

    def stop(self, now):
        shown(self, now)
        if now.number == 6:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(progress._Show, "__call__", stop)
        code, _, err = told(capsys, *call)
    assert code == 130
    assert "Run the same command again" in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()
    kept = list(tmp_path.glob(".out.checkpoint-*.npz"))
    assert len(kept) == 1
    assert stat.S_IMODE(kept[0].stat().st_mode) == 0o600
    code, out, err = told(capsys, *call, "--json")
    assert code == 0, err
    assert "going on from" in err
    assert list(tmp_path.glob(".out*")) == []
    whole = Result.load(place / "result")
    assert json.loads(out)["effects"][0]["mean"] == whole.ate().mean
    assert Result.load(tmp_path / "out").outcome.fit.objective == whole.outcome.fit.objective


def test_linkage_is_repeated_when_a_run_goes_on(tmp_path):
    """Sites in one process forget whom linkage left out; the resumed run must leave out the same people."""
    plan = study(options=SHORT, ids="id", missing="impute")
    tables = [frame(rows, s).assign(id=[f"P{s}-{i}" for i in range(rows)]) for s, rows in enumerate((40, 33))]
    tables[0].loc[20:23, "age"] = np.nan  # the shapes of the test above: compiled once
    tables[1] = pd.concat([tables[1], tables[0].iloc[:7]], ignore_index=True)
    sources = [Source(name, table) for name, table in zip("ab", tables, strict=True)]
    whole = FedCI(plan).fit(sources)

    def stop(now):
        if now.number == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FedCI(plan).fit(sources, progress=stop, checkpoint=tmp_path / "kept.npz")
    resumed = FedCI(plan).fit(sources, checkpoint=tmp_path / "kept.npz")
    assert sum(resumed.outcome.excluded.values()) == 7
    assert resumed.outcome.excluded == whole.outcome.excluded
    assert resumed.ate().mean == whole.ate().mean
