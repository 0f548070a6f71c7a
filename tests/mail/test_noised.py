"""A study under `standard`, its sums with noise, by files: admitted, near the truth, counted, and recomputed by an
auditor."""

import json
import shutil

import pandas as pd
import pytest

from fedci.site import floors, store
from fedci.site.accountant import Accountant
from support.commanded import told
from support.mailed import SITES, Mailed
from support.noised import PEOPLE, plan, tables


@pytest.fixture(scope="module")
def noised(tmp_path_factory):
    made = Mailed(tmp_path_factory.mktemp("noised"), plan(), tables())
    (made.out / "kits" / floors.FILE).unlink()  # each site holds to `standard`
    for site in SITES:
        store.create(made.out / site / "store")
    made.go()
    return made


def test_what_standard_lets_through_is_near_the_truth(noised):
    found = noised.found()
    low, high = found.ate().interval()
    assert low < 1.0 < high
    assert found.ate().sd < 0.1
    assert found.diagnostics is None


def test_the_ledger_is_recomputed_noise_and_all(noised, capsys):
    for site in SITES:
        code, out, err = told(capsys, "ledger", "verify", noised.kits[site], "--data", noised.out / site / "cohort.csv")
        assert (code, err) == (0, ""), (out, err)
    changed = pd.read_csv(noised.out / "oslo" / "cohort.csv")
    changed.loc[3, "age"] += 0.1
    changed.to_csv(noised.out / "changed.csv", index=False)
    before = noised.files("oslo")
    code, out, err = told(capsys, "ledger", "verify", noised.kits["oslo"], "--data", noised.out / "changed.csv")
    assert code != 0
    assert "AskMeans" in out + err
    assert noised.files("oslo") == before  # an audit adds nothing, neither of these people


def test_numbers_told_per_person_are_said_before_and_after(noised, capsys):
    """By check, ledger, store and report: some hundred numbers of a thousand people, not none."""
    noised.study.write(noised.out / "study.toml")
    check = "check", noised.out / "study.toml", noised.out / "lyon.csv"
    shutil.copy(noised.out / "lyon" / "cohort.csv", noised.out / "lyon.csv")
    foreseen = json.loads(told(capsys, *check, "--json")[1])["numbers_told_per_person"]
    assert f"Numbers told per person: at most {foreseen:.3g}" in told(capsys, *check)[1]
    each = json.loads(told(capsys, "ledger", noised.kits["lyon"], "--json")[1])["numbers_told_per_person"]
    (share,) = each.values()
    assert 0.2 < foreseen < 0.5
    assert foreseen / 3 < share < 3 * foreseen  # as they left: masked, a number is up to two
    assert foreseen / 3 < Accountant(noised.out / "lyon" / "store").counts.numbers / PEOPLE < 3 * foreseen
    code, _, err = told(capsys, "report", noised.result, "--out", noised.out / "report.html")
    assert code == 0, err
    page = (noised.out / "report.html").read_text()
    assert "Numbers told in all sums: about" in page
    assert "learns a number of a person to ± 0.5 standard deviations at best" in page
