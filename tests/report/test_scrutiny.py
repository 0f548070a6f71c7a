"""What speaks against the answer stands in its section; what the result does not hold is said."""

import pytest

from fedci.report import scrutiny
from fedci.report.parts import Section, Table
from fedci.report.slots import Slots
from support.reported import DIAGNOSTICS

SECTIONS = {"balance": (scrutiny.balance, "balance of covariates"), "overlap": (scrutiny.overlap, "overlap"),
            "refuters": (scrutiny.refuters, "refutation tests"),
            "heterogeneity": (lambda slots: scrutiny.heterogeneity(slots, "effect on y"),
                              "analysis of the sites' own effects")}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_says_what_is_missing_and_shows_what_is_there(name):
    made, what = SECTIONS[name]
    assert made(Slots()).parts == [f"This result holds no {what}. {scrutiny.DIAGNOSTICS}"]
    whole = made(Slots.model_validate({name: DIAGNOSTICS[name]}))
    assert whole.id == name
    assert not any(part.startswith("This result holds no") for part in whole.parts if isinstance(part, str))
    assert any(not isinstance(part, str) for part in whole.parts)


def test_verdicts_stand_before_the_plots_of_their_section():
    said = {"balance": [{"name": "age", "verdict": "look", "words": "age differs"}]}
    slots, section = Slots.model_validate({"verdicts": said}), Section("balance", "Alike?", ["after"])
    first, *rest = scrutiny.with_verdicts(section, slots).parts
    assert (first, rest) == (Table(["verdict", "of", "in words"], [["look", "age", "age differs"]]), ["after"])
    assert scrutiny.with_verdicts(Section("fit", "", []), slots).parts == []
