"""The main job end to end, and the README's example as written."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from fedci import Result
from fedci.cli.demo import HOSPITALS, run_demo
from tests_support import frame

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_demo_makes_hospitals_fits_them_and_compares_with_the_truth(tmp_path):
    console = Console(record=True, width=100, file=(tmp_path / "screen.txt").open("w"))
    result = run_demo(tmp_path / "demo", console=console)
    screen = console.export_text()
    assert "Average effects beside the known truth" in screen
    assert "√PEHE" in screen
    assert result.converged
    truth = pd.read_csv(tmp_path / "demo" / "truth.csv")
    assert set(truth.site) == {"all", *HOSPITALS}
    assert truth.covered.mean() > 0.5
    assert {p.stem for p in (tmp_path / "demo" / "hospitals").glob("*.csv")} == set(HOSPITALS)
    assert Result.load(tmp_path / "demo" / "result").ate().mean == result.ate().mean
    page = (tmp_path / "demo" / "result" / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") > 10
    assert "bergen" in page


def test_the_readmes_example_runs_as_written(tmp_path, monkeypatch, capsys):
    """Its three hospitals, made of simulated people with enough rows for the standard policy."""
    monkeypatch.chdir(tmp_path)

    def hospital(seed, rows=90):
        f = frame(rows, seed).rename(columns={"w": "treated", "y": "ldl_change"}).drop(columns="sex")
        return f.assign(stage=np.array(["I", "II", "III"] * (rows // 3)), treated=np.arange(rows) % 2)

    hospital(0).to_csv("lyon.csv", index=False)
    hospital(1).to_parquet("oslo.parquet")
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    names = {"turin_frame": hospital(2), "new_patients": hospital(3)}
    exec(compile(code, "README.md", "exec"), names)  # the example itself, from our own file
    assert names["effects"].shape == (90,)
    assert (names["low"] < names["high"]).all()
    assert Path("result/result.json").exists()
    assert "On average treatment changes" in capsys.readouterr().out
    assert len([line for line in code.splitlines() if line.strip()]) <= 16
