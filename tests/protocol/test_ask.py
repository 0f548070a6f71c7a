"""One step asked of all sites: its name and the sum before it, and no number that a site could not work out."""

from dataclasses import fields

import numpy as np

from fedci.model.family import Ask
from fedci.protocol.ask import shapes, sizes, step_of
from fedci.protocol.messages import Message, Step
from fedci.protocol.requests import REQUESTS

EVALUATE = Ask("Evaluate", {"theta": np.arange(3.0), "phi_roots": np.ones((2, 2, 2)),
                            "sigma_roots": np.ones((2, 2, 2))})


def test_every_site_is_asked_alike_and_no_question_travels():
    one, two = (step_of(EVALUATE, ("run", 4, site), {}) for site in ("lyon", "oslo"))
    assert (one, two) == (Step("run", 4, "lyon", "Evaluate"), Step("run", 4, "oslo", "Evaluate"))
    assert {field.name for field in fields(Step)} - {field.name for field in fields(Message)} == {"name", "previous"}


def test_the_sum_of_the_step_before_travels_with_the_next():
    told = {"gradient": np.arange(2.0)}
    step = step_of(EVALUATE, ("run", 1, "x"), told)
    assert step.previous == told
    assert step.previous is not told


def test_the_shapes_of_an_answer_follow_from_what_is_asked():
    assert shapes(None, Ask("AskColumns", {"columns": np.array(4)}))["withheld"] == (4,)
    assert sizes({"columns": np.array(4), "slots": np.array(3)}) == {"columns": 4, "sites": 3, "described": 7}
    assert shapes(None, Ask("AskDiagnostic.propensity", {"centre": np.zeros(5)})) == {
        "log_likelihood": (), "gradient": (5,), "hessian": (5, 5), "carried": (2,)}
    assert REQUESTS["AskDiagnostic.outcome"].shapes({})["bins"] == (10, 4)


def test_no_sum_but_the_papers_moments_has_a_coordinate_of_a_site():
    summed = {row.name: {length for array in row.answer for length in array.shape} for row in REQUESTS.values()
              if row.summed}
    assert [name for name, lengths in summed.items() if "sites" in lengths] == ["AskDescription"]
