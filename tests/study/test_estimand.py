"""The question in words: read, written, hashed; studies without it are as they were."""

import pytest

from fedci.errors import StudyError
from fedci.study.estimand import STRATEGIES
from fedci.study.study import Study
from support.studies import small

WORDS = {"population": "Adults", "summary": "Difference of means",
         "intercurrent": [{"event": "stops", "strategy": "treatment-policy"},
                          {"event": "dies", "strategy": "composite", "how": "death counts\nas the worst"}],
         "trial": {"time_zero": "discharge", "contrast": "as assigned"}}


def test_a_study_without_an_estimand_keeps_its_file_and_hash():
    study = small()
    assert study.estimand is None
    assert "estimand" not in study.to_toml()
    assert study.hash() == small(estimand=None).hash()


def test_an_estimand_is_in_the_hash_word_by_word_and_survives_the_file():
    study = small(estimand=WORDS)
    again = Study.from_toml(study.to_toml())
    assert again == study
    assert again.hash() == study.hash() != small().hash()
    assert small(estimand=WORDS | {"summary": "Ratio"}).hash() != study.hash()


@pytest.mark.parametrize("words, said", [
    ({"populatoin": "x"}, "populatoin"), ({"population": " "}, "is empty"), ({"population": "a\x1b[2J"}, "control"),
    ({"intercurrent": [{"event": "x", "strategy": "per protocol"}]}, "treatment-policy"),
    ({"trial": {"timezero": "x"}}, "timezero"), ({"population": "x" * 5000}, "4000")])
def test_what_is_wrong_with_words_is_said(words, said):
    with pytest.raises(StudyError, match="estimand") as problem:
        small(estimand=words)
    assert said in problem.value.message


def test_every_strategy_is_explained_and_may_be_written():
    for strategy in STRATEGIES:
        small(estimand={"intercurrent": [{"event": "x", "strategy": strategy}]})
    assert len(STRATEGIES) == 5
