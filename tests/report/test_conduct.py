"""What left each site, what is assumed and how the result was made, as the report says it."""

from fedci import Result
from fedci.report import conduct
from fedci.report.page import write_report
from fedci.report.slots import Slots
from support.reported import hospital, plan
from tests_support import made_result


def test_how_it_was_made_names_the_study_the_seed_and_every_version(folder):
    result = Result.load(folder)
    facts, _ = conduct.made(result).parts
    rows = dict(facts.rows)
    assert rows["study hash"] == result.study.hash()
    assert rows["seed"] == str(result.outcome.seed)
    assert result.versions.items() <= rows.items()


def test_an_assumption_is_checked_where_a_verdict_says_so(folder):
    result = Result.load(folder)
    verdict = {"name": "overlap", "verdict": "look", "words": "some stand alone"}
    bare, said = (conduct.assumptions(result, Slots.model_validate({"verdicts": verdicts})).parts[0].rows
                  for verdicts in ({}, {"overlap": [verdict]}))
    assert [row for row in bare if row not in said] == [
        ["Overlap: everybody could have been treated or not (needed for effects without the model's help)",
         "Not checked: the result holds no such diagnostics."]]


def test_a_study_with_noised_effects_has_a_report(tmp_path):
    noisy = {"name": "simulation", "epsilon": 2.0, "delta": 1e-5, "outcome_range": [-2.0, 12.0], "effect_bound": 5.0}
    asked = plan(policy=noisy, covariates={"age": {"range": [0, 120]}, "bmi": {"range": [5, 90]}, "sex": "binary",
                                           "stage": {"type": "categorical", "levels": ["I", "II", "III"]}})
    made_result(asked, {"lyon": hospital(60, 0), "oslo": hospital(50, 1)}).save(tmp_path / "result")
    text = write_report(tmp_path / "result").read_text()
    assert "Realised effects are not told where effects have noise for privacy" in text
    assert "(epsilon 2), noise was added at the sites to: effects, moments" in text
    assert "vary together is not told" in text
