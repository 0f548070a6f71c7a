"""The answer's words and numbers are the result's own."""

import re

import pytest

from fedci import Result
from fedci.report import answer
from fedci.report.svg import number


@pytest.mark.parametrize("value, words", [(0.0004, "below 0.1%"), (0.9996, "above 99.9%"), (0.25, "25.0%")])
def test_a_chance_is_never_said_to_be_none_or_certain(value, words):
    assert answer._chance(value) == words


def test_the_answer_stands_first_in_the_results_own_numbers(folder, page):
    result = Result.load(folder)
    said = re.search(r'<p class="answer">(.*?)</p>', page, re.DOTALL).group(1)
    low, high = result.ate().interval()
    assert f"raises y by {number(result.ate().mean)}" in said
    assert f"{number(low)} to {number(high)}" in said
    assert page.index('class="answer"') < page.index("<svg")
