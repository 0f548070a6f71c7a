"""Diagnostics and refuters as part of a study: they change no effect, pass through doors, and are saved."""

import numpy as np
import pytest

from fedci import Result
from fedci.coordinator import refits
from fedci.coordinator.coordinator import run_study
from fedci.diagnostics.findings import Diagnostics
from fedci.errors import DataError, UsageError
from fedci.protocol.codec import decode, encode
from fedci.protocol.engine import InProcessEngine
from fedci.site.door import Door
from fedci.site.ledger import Ledger, read
from fedci.site.site import Site
from support.refuted import QUICK, REFUTE, sources
from tests_support import fit, frame, hospitals, small, study

SHARED = small(6)


def test_diagnostics_change_no_number_of_the_study(refuted):
    plain = fit(sources(), options=QUICK)
    assert plain.diagnostics is None
    assert plain.outcome.fit.theta.tobytes() == refuted.outcome.fit.theta.tobytes()
    assert plain.ate().means.tobytes() == refuted.ate().means.tobytes()


def test_every_section_is_there(refuted):
    found = refuted.diagnostics
    for section in (found.balance, found.overlap, found.fit, found.heterogeneity, found.sensitivity):
        assert section is not None
    assert len(found.fit.trace) == 6
    assert found.fit.ended == "stopped at the cap"
    assert sum(found.fit.places) == 46
    assert sum(one.people for one in found.fit.calibration) <= 46


def test_each_site_effect_is_its_aipw_and_the_sums_are_consistent(refuted):
    """The sites' own estimates against the rows: residual weighting of the saved propensity around any outcome model
    keeps Σψ within its own error of the model's effect (4 se: 1 in 16,000)."""
    found = refuted.diagnostics.heterogeneity
    assert [row.site for row in found.sites] == list(refuted.sites)
    for row in found.sites:
        assert row.people == refuted.people[row.site].table.rows
        assert row.model.mean == pytest.approx(refuted.ate(row.site).mean)
        assert abs(row.own.mean - row.model.mean) < 4 * (row.se + refuted.ate(row.site).sd)
    people = np.array([row.people for row in found.sites])
    means = np.array([row.own.mean for row in found.sites])
    assert found.pooled.mean == pytest.approx(people @ means / people.sum())


def test_sensitivity_is_of_the_studys_own_effect(refuted):
    found = refuted.diagnostics.sensitivity
    assert found.effect == pytest.approx(refuted.ate().mean)
    assert (found.low, found.high) == pytest.approx(refuted.ate().interval())
    y = np.concatenate([people.table.y for people in refuted.people.values()])
    assert found.outcome_sd == pytest.approx(y.std())
    table = refuted.sensitivity()
    assert [one.mean for one in found.correlations] == pytest.approx(list(table["mean"]))
    assert [one.person_sd for one in found.correlations] == pytest.approx(list(table.person_sd))


def test_bounds_of_one_effect_widen_with_confounding(refuted):
    new = frame(5, 60)
    mean = refuted.effect(new, "site-0")
    same, wide = (refuted.effect_bounds(new, strength, "site-0") for strength in (1.0, 2.0))
    np.testing.assert_allclose(same, [mean, mean])
    assert (wide[0] < mean).all()
    np.testing.assert_allclose(wide[1] - mean, mean - wide[0])
    rows = np.column_stack([new.age, new.bmi, new.sex]).astype(float)
    e = refuted.diagnostics.overlap.propensity(rows, "site-0")
    s0, s1 = refuted.diagnostics.sensitivity.noise_sd
    ratio = (wide[1] - mean) / ((1 - e) * s1 + e * s0)
    np.testing.assert_allclose(ratio, ratio[0])
    with pytest.raises(UsageError, match="1 .no confounding"):
        refuted.effect_bounds(new, 0.5, "site-0")


def test_refuters_are_rows_with_verdicts(refuted):
    rows = {row.name: row for row in refuted.diagnostics.refuters}
    assert list(rows) == ["placebo", "random-cause", "subset", "negative-control"]
    for name, row in rows.items():
        assert row.reference == (0.0 if name in ("placebo", "negative-control") else pytest.approx(refuted.ate().mean))
        assert row.estimate.low < row.estimate.mean < row.estimate.high
        assert row.verdict.verdict in ("fine", "look", "problem")
    # Effects that are not there: 4 sd, 1 in 16,000 were the posterior exact; the study's own is beyond.
    assert rows["placebo"].z < 4
    assert rows["negative-control"].z < 4
    assert refuted.ate().mean / refuted.ate().sd > 4
    assert "'falls'" in rows["negative-control"].verdict.words
    assert refuted.diagnostics.notes == ()


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
    expected = run_study(engine, plan).diagnostics
    ledgers = {t.site: Ledger(tmp_path / t.site) for t in tables}
    doors = {t.site: Door(Site(plan, t), ledgers[t.site], tmp_path / t.site) for t in tables}
    found = run_study(Doors(doors), plan).diagnostics
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


def test_through_doors_the_refuters_are_the_same_and_stand_in_the_ledger(refuted, tmp_path):
    """Each a run of its own, whose every answer is in the ledger; a person approves a refuter once, as a whole."""
    plan, asked = refuted.study, []
    ledgers = {source.name: Ledger(tmp_path / source.name) for source in sources()}
    doors = {source.name: Door(Site(plan, source.read(plan)), ledgers[source.name], tmp_path / source.name,
                               approve=lambda phase, words: asked.append(words) or True) for source in sources()}
    outcome = run_study(Doors(doors), plan)
    before, kept = len(asked), []
    found = refits.refuted(Doors(doors), plan, outcome, after=kept.append).diagnostics
    assert without_clock(found) == without_clock(refuted.diagnostics)
    assert [len(one.diagnostics.refuters) for one in kept] == [1, 2, 3, 4]
    assert len(asked) - before == len(refits.wanted(plan)) * len(doors)
    assert all("Asked once for all of it" in words for words in asked[before:])
    assert refits.refuted(None, plan, kept[-1]) is kept[-1]  # nobody is asked again for what is known
    for name, book in ledgers.items():
        phases = {}
        for entry in read(tmp_path / name):
            phases.setdefault(entry["run"], {})[entry["phase"]] = True
        assert list(phases) == [outcome.run, *(f"{outcome.run}-{one}" for one in refits.wanted(plan))]
        assert all(list(phases[f"{outcome.run}-{one}"]) == ["handshake", "moments", "fit", "effects"]
                   for one in refits.wanted(plan))
        book.close()


def without_clock(found: Diagnostics) -> Diagnostics:
    steps = tuple(step.model_copy(update={"seconds": 0.0}) for step in found.fit.trace)
    return found.model_copy(update={"fit": found.fit.model_copy(update={"trace": steps})})


# --- saved, sealed, opened


def test_saved_diagnostics_come_back_and_are_read_alone(refuted, tmp_path):
    refuted.save(tmp_path / "out")
    assert Diagnostics.read(tmp_path / "out" / "diagnostics.json") == refuted.diagnostics
    assert Result.load(tmp_path / "out").diagnostics == refuted.diagnostics
