"""Diagnostics as part of a study: they change no effect, pass through doors, are saved, seal and refute."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedci import Result, Source, Study, __version__
from fedci.cli import commands
from fedci.coordinator.coordinator import run_study
from fedci.coordinator.refits import refuted, wanted
from fedci.diagnostics.findings import Diagnostics
from fedci.errors import DataError, DisclosureError, StudyError, UsageError
from fedci.protocol import refuting
from fedci.protocol.codec import decode, encode
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.messages import Hello, Refusal, Reply
from fedci.site.door import Door
from fedci.site.ledger import Ledger, read
from fedci.site.site import Site
from fedci.table.table import design_columns
from tests_support import fit, frame, hospitals, study

QUICK = {"optimiser": {"rounds": 6}, "prediction": {"draws": 16}}
SHARED = QUICK | {"model": {"knots": 3}}
REFUTE = {"refute": ["placebo", "random-cause", "subset"], "negative_control": "falls"}


def sources():
    """With an outcome that treatment does not touch. 80% of 24 and of 22 rows have the same size class: one compilation
    less."""
    rng = np.random.default_rng(3)
    return [Source(f"site-{s}", frame(n, s).assign(falls=rng.normal(size=n))) for s, n in enumerate((24, 22))]


@pytest.fixture(scope="module")
def result():
    return fit(sources(), options=QUICK, diagnostics=REFUTE)


@pytest.fixture(scope="module")
def blinded(result):
    """The same study, sealed: the outcome is the same object."""
    plan = study(options=QUICK, diagnostics=REFUTE | {"blinded": True})
    return lambda: replace(result, study=plan, opened=None)


def test_diagnostics_change_no_number_of_the_study(result):
    plain = fit(sources(), options=QUICK)
    assert plain.diagnostics is None
    assert plain.outcome.fit.theta.tobytes() == result.outcome.fit.theta.tobytes()
    assert plain.ate().means.tobytes() == result.ate().means.tobytes()


def test_every_section_is_there(result):
    found = result.diagnostics
    for section in (found.balance, found.overlap, found.fit, found.heterogeneity, found.sensitivity):
        assert section is not None
    assert len(found.fit.trace) == 6
    assert found.fit.ended == "stopped at the cap"
    assert sum(found.fit.places) == 46
    assert sum(one.people for one in found.fit.calibration) <= 46


def test_each_site_effect_is_its_aipw_and_the_sums_are_consistent(result):
    """The sites' own estimates against the rows: residual weighting of the saved propensity around any outcome model
    keeps Σψ within its own error of the model's effect (4 se: 1 in 16,000)."""
    found = result.diagnostics.heterogeneity
    assert [row.site for row in found.sites] == list(result.sites)
    for row in found.sites:
        assert row.people == result.local[row.site].table.rows
        assert row.model.mean == pytest.approx(result.ate(row.site).mean)
        assert abs(row.own.mean - row.model.mean) < 4 * (row.se + result.ate(row.site).sd)
    people = np.array([row.people for row in found.sites])
    means = np.array([row.own.mean for row in found.sites])
    assert found.pooled.mean == pytest.approx(people @ means / people.sum())


def test_sensitivity_is_of_the_studys_own_effect(result):
    found = result.diagnostics.sensitivity
    assert found.effect == pytest.approx(result.ate().mean)
    assert (found.low, found.high) == pytest.approx(result.ate().interval())
    y = np.concatenate([site.table.y for site in result.local.values()])
    assert found.outcome_sd == pytest.approx(y.std())
    table = result.sensitivity()
    assert [one.mean for one in found.correlations] == pytest.approx(list(table["mean"]))
    assert [one.person_sd for one in found.correlations] == pytest.approx(list(table.person_sd))


def test_bounds_of_one_effect_widen_with_confounding(result):
    new = frame(5, 60)
    mean = result.effect(new, "site-0")
    same, wide = (result.effect_bounds(new, strength, "site-0") for strength in (1.0, 2.0))
    np.testing.assert_allclose(same, [mean, mean])
    assert (wide[0] < mean).all()
    np.testing.assert_allclose(wide[1] - mean, mean - wide[0])
    rows = np.column_stack([new.age, new.bmi, new.sex]).astype(float)
    e = result.diagnostics.overlap.propensity(rows, "site-0")
    s0, s1 = result.diagnostics.sensitivity.noise_sd
    ratio = (wide[1] - mean) / ((1 - e) * s1 + e * s0)
    np.testing.assert_allclose(ratio, ratio[0])
    with pytest.raises(UsageError, match="1 .no confounding"):
        result.effect_bounds(new, 0.5, "site-0")


def test_refuters_are_rows_with_verdicts(result):
    rows = {row.name: row for row in result.diagnostics.refuters}
    assert list(rows) == ["placebo", "random-cause", "subset", "negative-control"]
    for name, row in rows.items():
        assert row.reference == (0.0 if name in ("placebo", "negative-control") else pytest.approx(result.ate().mean))
        assert row.estimate.low < row.estimate.mean < row.estimate.high
        assert row.verdict.verdict in ("fine", "look", "problem")
    # Effects that are not there: 4 sd, 1 in 16,000 were the posterior exact; the study's own is beyond.
    assert rows["placebo"].z < 4
    assert rows["negative-control"].z < 4
    assert result.ate().mean / result.ate().sd > 4
    assert "'falls'" in rows["negative-control"].verdict.words
    assert result.diagnostics.notes == ()


def test_a_refuter_changes_what_it_says_and_nothing_else():
    """At the site, from the study's seed: whoever asks chooses nothing."""
    plan = study(diagnostics=REFUTE, seed=5)
    table = sources()[0].read(plan)
    rows = np.arange(100, 100 + table.rows)
    made = {name: refuting.changed(plan, table, rows, name) for name in wanted(plan)}
    placebo, noisy, part, control = (made[name][0] for name in ("placebo", "random-cause", "subset",
                                                                "negative-control"))
    assert sorted(placebo.w) == sorted(table.w)
    assert placebo.w.tolist() != table.w.tolist()
    assert noisy.columns == (*table.columns, refuting.NOISE)
    assert noisy.columns == design_columns(refuting.plan(plan, "random-cause"))[0]
    np.testing.assert_array_equal(noisy.x[:, :-1], table.x)
    np.testing.assert_array_equal(part.x, table.x[made["subset"][1] - 100])
    assert (part.treated, part.rows - part.treated) == (np.ceil(0.8 * table.treated),
                                                        np.ceil(0.8 * (table.rows - table.treated)))
    np.testing.assert_array_equal(control.y, sources()[0].data.falls)
    for one in (placebo, noisy, part):
        np.testing.assert_array_equal(one.y, table.y if one is not part else table.y[made["subset"][1] - 100])
    again = refuting.changed(plan, table, rows, "subset")[1]
    np.testing.assert_array_equal(again, made["subset"][1])
    others = [refuting.changed(study(diagnostics=REFUTE, seed=6), table, rows, "subset")[1],
              refuting.changed(plan, replace(table, site="site-1"), rows, "subset")[1]]
    assert all(list(other) != list(again) for other in others)


def test_a_site_refutes_only_what_the_study_asks_for():
    plan = study(options=QUICK, diagnostics={"refute": ["placebo"]})
    site = Site(plan, sources()[0].read(plan))

    def hello(name, draws=16):
        options = plan.fit_options().model_dump(mode="json")
        options["prediction"]["draws"] = draws
        return site.answer(Hello("r", 1, site.name, __version__, plan.hash(), options, 0, name))

    assert isinstance(hello("placebo"), Reply)
    assert site.study.diagnostics.enabled is False
    for name in ("subset", "negative-control", "magic", "__init__"):
        refused = hello(name)
        assert isinstance(refused, Refusal)
        assert "does not ask for this refuter" in refused.reason
    noisy = plan.model_copy(update={"policy": plan.policy.model_copy(update={"epsilon": 1.0})})
    with pytest.raises(DisclosureError, match="differential privacy"):
        refuting.check_wanted(noisy, "site-0", "placebo")


def test_too_few_people_for_a_part_of_them_is_a_note_and_not_a_fit():
    """The policy's least number of people holds for a refuter's rows too: 80% of 24 are 20 (so many of each arm)."""
    policy = {"name": "simulation", "min_rows": 22}
    found = fit(sources(), options=QUICK, diagnostics={"refute": ["subset"]}, policy=policy).diagnostics
    assert found.refuters == ()
    [note] = found.notes
    assert note.startswith("the refuter 'subset' could not be fitted: ")
    assert "with 80% of the people" in note


def test_a_missing_control_is_told_before_the_fit():
    with pytest.raises(DataError, match="falls"):
        fit(hospitals(24, 22), diagnostics=REFUTE)


# --- through doors


class Doors:
    def __init__(self, doors):
        self.doors, self.sites = doors, tuple(sorted(doors))

    def exchange(self, requests):
        return {name: decode(self.doors[name].answer(encode(request))) for name, request in requests.items()}


def test_through_doors_the_diagnostics_are_the_same_and_stand_in_the_ledger(tmp_path):
    """Of the model `shared`, whose checks need the law of β as well."""
    plan = study(preset="default", options=SHARED, diagnostics={})
    tables = [source.read(plan) for source in sources()]
    engine = InProcessEngine({t.site: Site(plan, t) for t in tables})
    expected = run_study(engine, plan, plan.fit_options(), 0).diagnostics
    ledgers = {t.site: Ledger(tmp_path / t.site) for t in tables}
    doors = {t.site: Door(Site(plan, t), ledgers[t.site], tmp_path / t.site) for t in tables}
    found = run_study(Doors(doors), plan, plan.fit_options(), 0).diagnostics
    assert without_clock(found) == without_clock(expected)
    assert found.heterogeneity is not None
    for name, book in ledgers.items():
        entries = read(tmp_path / name)
        assert list(dict.fromkeys(e["phase"] for e in entries)) == ["handshake", "moments", "design", "fit", "effects",
                                                                    "checks"]
        told = next(e for e in entries if e["request"] == "AskDiagnostic.overlap")["values"]
        site = next(one for one in found.overlap.sites if one.site == name)
        assert told["counts"] == [list(site.histogram.untreated), list(site.histogram.treated)]
        book.close()


def test_through_doors_the_refuters_are_the_same_and_stand_in_the_ledger(result, tmp_path):
    """Each a run of its own, whose every answer is in the ledger; a person approves a refuter once, as a whole."""
    plan, asked = result.study, []
    ledgers = {source.name: Ledger(tmp_path / source.name) for source in sources()}
    doors = {source.name: Door(Site(plan, source.read(plan)), ledgers[source.name], tmp_path / source.name,
                               approve=lambda phase, words: asked.append(words) or True) for source in sources()}
    outcome = run_study(Doors(doors), plan, plan.fit_options(), 0)
    before, kept = len(asked), []
    found = refuted(Doors(doors), plan, outcome, after=kept.append).diagnostics
    assert without_clock(found) == without_clock(result.diagnostics)
    assert [len(one.diagnostics.refuters) for one in kept] == [1, 2, 3, 4]
    assert len(asked) - before == len(wanted(plan)) * len(doors)
    assert all("Asked once for all of it" in words for words in asked[before:])
    assert refuted(None, plan, kept[-1]) is kept[-1]  # nobody is asked again for what is known
    for name, book in ledgers.items():
        phases = {}
        for entry in read(tmp_path / name):
            phases.setdefault(entry["run"], {})[entry["phase"]] = True
        assert list(phases) == [outcome.run, *(f"{outcome.run}-{one}" for one in wanted(plan))]
        assert all(list(phases[f"{outcome.run}-{one}"]) == ["handshake", "moments", "fit", "effects"]
                   for one in wanted(plan))
        book.close()


def without_clock(found: Diagnostics) -> Diagnostics:
    steps = tuple(step.model_copy(update={"seconds": 0.0}) for step in found.fit.trace)
    return found.model_copy(update={"fit": found.fit.model_copy(update={"trace": steps})})


# --- saved, sealed, opened


def test_saved_diagnostics_come_back_and_are_read_alone(result, tmp_path):
    result.save(tmp_path / "out")
    assert Diagnostics.read(tmp_path / "out" / "diagnostics.json") == result.diagnostics
    assert Result.load(tmp_path / "out").diagnostics == result.diagnostics


ASK = [lambda r: r.ate(), lambda r: r.att(), lambda r: r.table(), lambda r: r.sensitivity(), lambda r: r.drivers(),
       lambda r: r.effect(frame(3, 1)), lambda r: r.ite("site-0"), lambda r: r.ate_interval(),
       lambda r: r.impute(frame(3, 1), "site-0"), lambda r: r.effect_bounds(frame(3, 1), 2.0, "site-0")]


@pytest.mark.parametrize("ask", ASK)
def test_a_blinded_result_answers_no_question_about_effects(blinded, ask):
    with pytest.raises(UsageError, match="sealed until somebody has read the diagnostics"):
        ask(blinded())


def test_a_blinded_summary_and_its_files_do_not_tell_the_effect(blinded, result, tmp_path):
    one = blinded()
    ate = f"{result.ate().mean:.4g}"
    assert "sealed" in one.summary()
    assert ate not in one.summary() + str(one.diagnostics)
    assert (one.plain()["effects"], one.plain()["blinded"]) == (None, True)
    result.save(tmp_path / "out")
    one.save(tmp_path / "out", force=True)
    left = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert left == {"result.json", "arrays.npz", "trace.csv", "diagnostics.json", "sites/site-0/rows.npz",
                    "sites/site-1/rows.npz"}
    kept = Diagnostics.read(tmp_path / "out" / "diagnostics.json")
    assert kept.blinded
    assert kept.sensitivity is None
    back = Result.load(tmp_path / "out")
    assert back.blinded
    with pytest.raises(UsageError, match="sealed"):
        back.ate()


def test_opening_is_recorded_and_needs_a_reason_where_there_is_a_problem(blinded, result, tmp_path, monkeypatch):
    monkeypatch.setattr(Diagnostics, "problems", ())
    one = blinded()
    with pytest.raises(UsageError, match="say who"):
        one.unblind("  ")
    one.unblind("A. Statistician")
    assert one.ate().mean == result.ate().mean
    assert one.diagnostics == result.diagnostics
    one.save(tmp_path / "out")
    back = Result.load(tmp_path / "out")
    assert not back.blinded
    assert back.opened == one.opened
    assert set(one.opened) == {"at", "by", "reason"}
    with pytest.raises(UsageError, match=r"open already, by A. Statistician"):
        back.unblind("B")
    monkeypatch.setattr(Diagnostics, "problems", result.diagnostics.verdicts[:1])
    with pytest.raises(UsageError, match="balance before adjustment"):
        blinded().unblind("A")
    assert blinded().unblind("A", "known and accepted").opened["reason"] == "known and accepted"
    with pytest.raises(UsageError, match="not blinded"):
        result.unblind("A")


def test_trying_to_open_tells_nothing_of_the_effect(blinded, monkeypatch):
    """Problems of the sealed diagnostics only: that the E-value is one says that the interval excludes zero."""
    asked = []
    monkeypatch.setattr(Diagnostics, "problems", property(lambda self: asked.append(self.blinded) or ()))
    blinded().unblind("A")
    assert asked == [True]


def told(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        commands.main([str(word) for word in arguments])
    said = capsys.readouterr()
    return left.value.code, said.out, said.err


def test_the_commands_show_and_open(blinded, tmp_path, capsys):
    blinded().save(tmp_path / "out")
    code, out, _ = told(capsys, "diagnostics", tmp_path / "out")
    assert code == 0
    assert "Balance" in out
    assert "Blinded" in out
    assert "E-value" not in out
    code, out, _ = told(capsys, "diagnostics", tmp_path / "out", "--json")
    assert (code, json.loads(out)["blinded"], json.loads(out)["sensitivity"]) == (0, True, None)
    code, out, err = told(capsys, "unblind", tmp_path / "out", "--by", "A. Statistician", "--reason", "a test")
    assert code == 0, err
    assert "On average treatment changes the outcome by" in out
    assert "E-value" in out
    opened = json.loads((tmp_path / "out" / "result.json").read_text())["opened"]
    assert (opened["by"], opened["reason"]) == ("A. Statistician", "a test")
    assert (tmp_path / "out" / "effects.csv").exists()
    code, _, err = told(capsys, "diagnostics", tmp_path)
    assert (code, "cannot be read" in err) == (2, True)


# --- the study file


def test_the_table_of_a_study_file_is_read_and_written():
    plan = study(diagnostics=REFUTE | {"blinded": True})
    assert Study.from_toml(plan.to_toml()) == plan
    assert plan.diagnostics.refute == ("placebo", "random-cause", "subset")
    assert study(diagnostics={"refute": True}).diagnostics.refute == plan.diagnostics.refute
    assert "[diagnostics]" not in study(diagnostics={}).to_toml()
    assert plan.hash() != study(diagnostics=REFUTE).hash()


@pytest.mark.parametrize("table, words", [
    ({"enabled": False, "blinded": True}, "diagnostics.blinded needs the diagnostics"),
    ({"enabled": False, "refute": True}, "diagnostics.refute needs"),
    ({"refute": ["magic"]}, "diagnostics: 'refute.0'"),
    ({"refute": ["placebo", "placebo"]}, "twice"),
    ({"blind": True}, "unknown key 'blind'"),
    ({"blinded": 1}, "'blinded'"),
    ({"negative_control": "y"}, "already in outcome"),
    ({"negative_control": "age"}, "already in"),
])
def test_a_wrong_table_is_told_by_its_key(table, words):
    with pytest.raises(StudyError, match=words):
        study(diagnostics=table)
