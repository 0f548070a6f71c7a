"""A whole study from files and a terminal: init, check, run, predict, compare; and what `check` says would leave."""

import json
import signal
import stat
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedci import Result, Source, Study
from fedci.cli import commands, progress
from fedci.errors import UsageError
from fedci.estimator import FedCI
from fedci.protocol import engine as engines
from fedci.protocol.requests import row_of
from fedci.result.comparison import compare
from fedci.result.prediction import predict_file, with_rows
from fedci.site.ledger import Ledger, Left
from fedci.site.release import release
from fedci.table.proposal import propose
from fedci.table.table import problems
from tests_support import frame, study

SHORT = {"optimiser": {"rounds": 8, "draws": 4}, "prediction": {"draws": 32}}
FAST = SHORT | {"model": {"directions": 1, "knots": 3}}
NEW = 1300
"""New people: three chunks of the prediction's own, the last not full."""


def told(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        commands.main([str(word) for word in arguments])
    said = capsys.readouterr()
    return left.value.code, said.out, said.err


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two hospitals' files, a study of the preset `default`, its result, and new people."""
    folder = tmp_path_factory.mktemp("workflow")
    plan = study(preset="default", options=FAST)
    plan.write(folder / "study.toml")
    for name, rows, seed in (("a", 55, 0), ("b", 50, 1)):  # one size class: compiled once
        frame(rows, seed).to_csv(folder / f"{name}.csv", index=False)
    frame(NEW, 9).assign(patient=[f"P{i}" for i in range(NEW)]).to_csv(folder / "new.csv", index=False)
    sources = [Source(name, folder / f"{name}.csv") for name in "ab"]
    FedCI(plan).fit(sources).save(folder / "result")
    return folder


# ── init ────────────────────────────────────────────────────────────────────────────────────────────────────


def hospital(rows=80):
    table = frame(rows, 3).rename(columns={"w": "treated", "y": "ldl_change"})
    stages = np.array(["I", "II", "III"])[np.arange(rows) % 3]
    table = table.assign(stage=stages, patient_id=[f"P{i:04d}" for i in range(rows)], ward="north",
                         note=[f"free text {i % 30}" for i in range(rows)])
    table.loc[4:11, "bmi"] = np.nan
    return table


def test_init_proposes_a_study_that_its_own_file_passes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hospital().to_csv("lyon.csv", index=False)
    code, out, _ = told(capsys, "init", "lyon.csv")
    assert code == 0
    assert "to be reviewed" in out
    plan = Study.read("study.toml")
    assert (plan.treatment, plan.outcome, plan.ids) == ("treated", "ldl_change", ("patient_id",))
    by_name = {one.name: one for one in plan.covariates}
    assert {name: one.type for name, one in by_name.items()} == {
        "age": "numeric", "bmi": "numeric", "sex": "binary", "stage": "categorical"}
    assert set(by_name["stage"].levels) == {"I", "II", "III"}
    assert (by_name["bmi"].missing, by_name["age"].missing) == ("impute", None)
    text = (tmp_path / "study.toml").read_text()
    assert text.count("# review:") == 7  # treatment, outcome, ids and four covariates
    assert "'ward': one value only" in text
    assert problems(plan, Source("lyon", tmp_path / "lyon.csv")) == []
    assert told(capsys, "init", "lyon.csv")[0] == 2  # a file that is there is not replaced
    assert told(capsys, "init", "lyon.csv", "--force", "--json")[0] == 0


def test_a_proposed_study_holds_nobodys_extreme_value():
    table = hospital()
    found = propose(table)
    for one in found.study.covariates:
        if one.type == "numeric":
            low, high = table[one.name].min(), table[one.name].max()
            assert one.range[0] <= low < high < one.range[1]
            assert not {low, high} & set(one.range)


def test_init_leaves_out_what_no_study_can_name(tmp_path, capsys):
    table = hospital().assign(**{" blank": 1.5, "x" * 90: np.arange(80.0), 'quote"d': np.arange(80.0) ** 2})
    table.to_csv(tmp_path / "a.csv", index=False)
    assert told(capsys, "init", tmp_path / "a.csv", "--out", tmp_path / "s.toml")[0] == 0
    names = {one.name for one in Study.read(tmp_path / "s.toml").covariates}
    assert names == {"age", "bmi", "sex", "stage", 'quote"d'}
    assert "' blank': no name for a study" in (tmp_path / "s.toml").read_text()


def test_a_ledger_for_scripts(tmp_path, capsys):
    with Ledger(tmp_path / "lyon") as ledger:
        ledger.append(Left("run", 1, "moments", "AskMoments", "0" * 64, "Reply", "1" * 64, 100, {"x": [4, 3]}))
    code, out, _ = told(capsys, "ledger", tmp_path / "lyon", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["count"], found["head"]) == (1, ledger.head.hash)
    assert found["phases"][0] | {"phase": "moments", "numbers": 12} == found["phases"][0]


def test_init_without_a_treatment_says_what_is_needed(tmp_path, capsys):
    pd.DataFrame({"age": [1.5, 2.5, 3.5], "y": [1.0, 2.0, 3.5]}).to_csv(tmp_path / "a.csv", index=False)
    code, _, err = told(capsys, "init", tmp_path / "a.csv", "--out", tmp_path / "s.toml")
    assert code == 2
    assert "the treatment: a column of 0 and 1" in err


# ── check: every problem, and what would leave ──────────────────────────────────────────────────────────────


def test_check_tells_every_problem_at_once(tmp_path, capsys):
    table = frame(60, 0).assign(bmi=["27,5", *["x"] * 59], w=[2, *[1] * 59], y=np.r_[np.nan, np.ones(59)])
    table.loc[5, "age"] = np.nan
    table.drop(columns="sex").to_csv(tmp_path / "a.csv", index=False)
    study().write(tmp_path / "study.toml")
    code, out, err = told(capsys, "check", tmp_path / "study.toml", tmp_path / "a.csv")
    assert code == 2
    assert out == ""
    for part in ("'sex' is missing", "'w' holds values other than 0 and 1", "'y' has no value", "'bmi' holds text",
                 "'age' has 1 missing value", "5 problems"):
        assert part in err
    code, out, _ = told(capsys, "check", tmp_path / "study.toml", tmp_path / "a.csv", "--json")
    found = json.loads(out)
    assert code == 2
    assert found["ok"] is False
    assert len(found["problems"]) == 5


@pytest.mark.parametrize("seed", range(4))
def test_no_problems_is_the_same_as_a_table_that_can_be_read(seed):
    """On tables damaged at random, `problems` is empty exactly where `Source.read` works."""
    rng = np.random.default_rng(seed)
    table = frame(60, seed).astype(object)
    for _ in range(rng.integers(0, 3)):
        table.iloc[rng.integers(60), rng.integers(5)] = rng.choice(np.array([None, "x", 7], object))
    source = Source("a", table)
    try:
        source.read(study())
        readable = True
    except Exception:
        readable = False
    assert (problems(study(), source) == []) is readable


class Recorder(engines.InProcessEngine):
    """Remembers the arrays of site a's answers."""

    def _ask(self, name, request):
        back = super()._ask(name, request)
        if name == "a":
            refuter = request.run.partition("-")[2]
            phase = f"{refuter}: {row_of(request).phase}" if refuter else row_of(request).phase
            self.seen.append((phase, getattr(back, "sums", None) or vars(back)))
        return back


@pytest.mark.parametrize("preset", ["default", "classic"])
def test_what_check_says_would_leave_is_what_leaves(preset, monkeypatch):
    """Names, shapes and the moments' numbers of a real run beside the promise; the fit may ask for fewer rounds."""
    from fedci import estimator

    Recorder.seen = []
    monkeypatch.setattr(estimator, "InProcessEngine", Recorder)
    plan = study(preset=preset, options=FAST if preset == "default" else SHORT, ids="id")
    table = frame(55, 0).assign(id=[f"P{i}" for i in range(55)])
    if preset == "classic":  # a column more, which marks where a value was missing
        table.loc[3:6, "age"] = np.nan
        plan = study(preset=preset, options=SHORT, ids="id", missing="impute", diagnostics={"refute": ["placebo"]})
    sources = [Source("a", table), Source("b", frame(50, 1).assign(id=[f"Q{i}" for i in range(50)]))]
    FedCI(plan).fit(sources)
    promised = release(plan, sources[0].read(plan))
    left: dict = {}
    for phase, sums in Recorder.seen:
        for name, value in sums.items():
            if isinstance(value, np.ndarray):
                left.setdefault((phase, name), []).append(value.shape)
    wanted = {(one.phase, one.name) for one in promised.sums}
    assert left.keys() == wanted
    for (phase, name), shapes in left.items():
        allowed = Counter()
        for one in promised.sums:
            allowed[one.shape] += one.times if (one.phase, one.name) == (phase, name) else 0
        assert all(count <= allowed[shape] for shape, count in Counter(shapes).items()), (phase, name)
    moments = {phase: sums for phase, sums in Recorder.seen if phase.endswith("moments") and "x" in sums}
    np.testing.assert_array_equal(moments["moments"]["x"][0], [one.mean for one in promised.moments[:3]])
    if preset == "classic":
        shuffled = {one.column: one.mean for one in promised.moments}
        assert shuffled["y (treated) [placebo]"] == moments["placebo: moments"]["y1"][0, 0]


def test_check_refuses_what_the_site_would_refuse(tmp_path, capsys):
    study(preset="default", policy="standard").write(tmp_path / "study.toml")
    frame(90, 0).to_csv(tmp_path / "a.csv", index=False)
    code, _, err = told(capsys, "check", tmp_path / "study.toml", tmp_path / "a.csv")
    assert code == 3
    assert "columns per person" in err


def test_check_shows_the_numbers_that_would_leave(place, capsys):
    code, out, _ = told(capsys, "check", place / "study.toml", place / "a.csv", "--json")
    found = json.loads(out)
    assert code == 0
    age = pd.read_csv(place / "a.csv").age
    assert found["moments"][0]["column"] == "age"
    assert found["moments"][0]["mean"] == pytest.approx(age.mean(), rel=1e-12)
    code, out, _ = told(capsys, "check", place / "study.toml", place / "a.csv")
    assert "number by number" in out
    assert "Nothing has left now" in out


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
    tables = [frame(rows, s).assign(id=[f"P{s}-{i}" for i in range(rows)]) for s, rows in enumerate((56, 49))]
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


# ── predict ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_predictions_from_a_file_are_those_of_the_result(place, tmp_path, capsys):
    out = tmp_path / "effects.csv"
    code, said, _ = told(capsys, "predict", place / "result", place / "new.csv", "--site", "a", "--out", out, "--keep",
                         "patient")
    assert code == 0
    assert "1,300 people" in said
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    found, people = pd.read_csv(out), pd.read_csv(place / "new.csv")
    assert list(found.columns) == ["row", "patient", "effect", "sd", "low", "high"]
    assert (found.patient == people.patient).all()
    direct = Result.load(place / "result").effect_posterior(people, site="a")
    low, high = direct.interval(0.05)
    for name, values in {"effect": direct.mean, "sd": direct.sd, "low": low, "high": high}.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-8, atol=1e-9)  # ten digits are written


def test_chunks_do_not_change_a_prediction(place, tmp_path, monkeypatch):
    result = Result.load(place / "result")
    whole = predict_file(result, place / "new.csv", tmp_path / "whole.csv")
    monkeypatch.setattr("fedci.result.prediction.ROWS", 500)
    monkeypatch.setattr("fedci.table.columns.STREAM_BLOCK_BYTES", 40_000)
    parts = predict_file(result, place / "new.csv", tmp_path / "parts.csv")
    a, b = pd.read_csv(whole.path), pd.read_csv(parts.path)
    np.testing.assert_allclose(a, b, rtol=1e-8)
    pd.read_csv(place / "new.csv").to_parquet(tmp_path / "new.parquet")
    predict_file(result, tmp_path / "new.parquet", tmp_path / "parquet.csv")
    np.testing.assert_allclose(a, pd.read_csv(tmp_path / "parquet.csv"), rtol=1e-8)


def test_without_its_rows_a_site_gives_them_and_gets_the_same(place, tmp_path, capsys):
    """A coordinator's result holds no rows: at the site, its own table makes it whole again."""
    whole = Result.load(place / "result")
    bare = Result(whole.study, whole.outcome, {})
    bare.save(tmp_path / "bare")
    call = ("predict", tmp_path / "bare", place / "new.csv", "--site", "a", "--out", tmp_path / "x.csv")
    code, _, err = told(capsys, *call)
    assert code == 2
    assert "--rows TABLE" in err
    code, _, err = told(capsys, *call, "--rows", place / "a.csv", "--quiet")
    assert code == 0, err
    predict_file(whole, place / "new.csv", tmp_path / "y.csv", site="a")
    assert (tmp_path / "x.csv").read_bytes() == (tmp_path / "y.csv").read_bytes()
    with pytest.raises(UsageError, match="not the rows"):
        with_rows(bare, "a", Source("a", place / "b.csv"))


def test_people_elsewhere_need_no_rows(place, tmp_path):
    whole = Result.load(place / "result")
    bare = Result(whole.study, whole.outcome, {})
    people = pd.read_csv(place / "new.csv")[:40]
    predict_file(bare, people, tmp_path / "x.csv")
    np.testing.assert_allclose(pd.read_csv(tmp_path / "x.csv").effect, whole.effect(people), rtol=1e-8)


def test_a_failed_prediction_leaves_no_file_and_names_the_row(place, tmp_path, capsys):
    people = pd.read_csv(place / "new.csv")
    people["age"] = people.age.astype(object)
    people.loc[700, "age"] = "old"
    people.to_csv(tmp_path / "new.csv", index=False)
    code, _, err = told(capsys, "predict", place / "result", tmp_path / "new.csv", "--out", tmp_path / "x.csv",
                        "--quiet")
    assert code == 2
    assert "'age' holds text" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv"]


# ── compare ─────────────────────────────────────────────────────────────────────────────────────────────────


def without_b(result: Result) -> Result:
    """As if site b had taken no part: enough for a comparison, which looks at sums, moments and settings."""
    outcome = result.outcome
    layout = replace(outcome.layout, sites=("a",), moments={"a": outcome.layout.moments["a"]})
    effects = replace(outcome.effects, sums={"a": outcome.effects.sums["a"]})
    return replace(result, outcome=replace(outcome, layout=layout, effects=effects), local={})


def test_compare_puts_two_results_beside_each_other(place, capsys):
    both = Result.load(place / "result")
    found = compare(both, without_b(both)).plain()
    ate = found["effects"][0]
    assert ate["difference"] == pytest.approx(both.ate("a").mean - both.ate().mean, rel=1e-12)
    assert found["settings"]["sites"] == {"first": ["a", "b"], "second": ["a"]}
    assert found["same_question"]
    b = next(row for row in found["effects"] if row["site"] == "b")
    assert b["second"] is None
    assert b["difference"] is None
    code, out, _ = told(capsys, "compare", place / "result", place / "result")
    assert code == 0
    assert "Settings that differ" not in out
    code, out, _ = told(capsys, "compare", place / "result", place / "result", "--json")
    assert json.loads(out)["effects"][0]["difference"] == 0
