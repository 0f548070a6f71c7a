"""One who listens, and people whose missing values are drawn: what differs from draw to draw in the sums over all sites
is made of nobody but them.

    second[L, c] of copy k  less that of the mean copy  =  Σ_gaps Δ_ik x_ic − Σ_s Δlevel_sk S_sc        of rank gaps + m

With one gap the row (1, x_c) lies in a space of m + 1 dimensions, and of all rows of 0 and 1 only the person's does.
"""

from itertools import product

import numpy as np
import pytest

from fedci.coordinator import coordinator
from fedci.coordinator.talk import Talk
from fedci.protocol import completing, course
from fedci.protocol.course import Contract
from fedci.protocol.requests import COMPLETION
from support.doors import NAMES, Doors, plan
from tests_support import STANDARD_OTHERWISE

ROWS, TRAITS = 170, 7
PERSON = 11


def table(site: int):
    import pandas as pd

    rng = np.random.default_rng((site, 3))
    traits = rng.integers(0, 2, (ROWS, TRAITS))
    made = pd.DataFrame(traits, columns=[f"t{k}" for k in range(TRAITS)])
    made["bmi"], made["w"] = rng.normal(26, 4, ROWS), np.arange(ROWS) % 2
    return made.assign(y=0.1 * made.bmi + traits[:, 0] + made.w + rng.normal(size=ROWS))


def drawn(tmp_path, tables, least):
    """(what all know, the last sums over completed people)."""
    covariates = {"bmi": {}} | {f"t{k}": {"type": "binary"} for k in range(TRAITS)}
    study = plan(covariates=covariates, missing="model", diagnostics={"enabled": False},
                 policy=STANDARD_OTHERWISE | {"min_cell": least, "outcome_noise": 0.0},
                 options={"model": {"landmarks": 0, "directions": 0, "knots": 1},
                          "optimiser": {"rounds": 2, "draws": 2}, "prediction": {"draws": 256}})
    engine, contract = Doors(study, tables, tmp_path), Contract(study, NAMES)
    talk = Talk(engine, "run")
    coordinator.handshake(talk, contract)
    talk, known = coordinator.open_course(talk, contract)
    known = talk.follow(course.completed(contract, known))
    engine.close()
    return completing.gaps_of(study, known, len(NAMES)), known, talk.totals[COMPLETION].sums


def differences(gaps, told, arm):
    """[K, 1 + traits] Σ x_L and Σ x_L x_c of the arm, less their mean over the copies."""
    row = np.cumsum(np.arange(gaps.size, 0, -1))[0] - gaps.size  # of column 0, bmi, in the upper half
    sums = np.column_stack([told["first"][:, arm, 0], told["second"][:, arm, row + 1:row + 1 + TRAITS]])
    return sums - sums.mean(0)


@pytest.mark.parametrize("least", [0, 10])
def test_of_one_person_with_a_gap_nothing_is_drawn(tmp_path, least):
    """`least` 0: the attack finds the person's traits. With small cells hidden the sums differ by the sites' levels
    alone."""
    tables = {name: table(site) for site, name in enumerate(NAMES)}
    tables["oslo"].loc[PERSON, "bmi"] = np.nan
    gaps, known, told = drawn(tmp_path, tables, least)
    by_copy = differences(gaps, told, PERSON % 2)
    size, space = np.linalg.svd(by_copy)[1:]
    assert np.sum(size > 1e-6 * size[0]) == len(NAMES) + (least == 0)
    if least:
        return
    mean, sd = known.scales.x_mean[1:], known.scales.x_sd[1:]
    rows = np.array(list(product((0, 1), repeat=TRAITS)))
    able = np.column_stack([np.ones(len(rows)), (rows - mean) / sd])
    off = np.linalg.norm(able @ space[len(NAMES) + 1:].T, axis=1)
    assert rows[off.argmin()].tolist() == tables["oslo"].loc[PERSON, [f"t{k}" for k in range(TRAITS)]].tolist()
    assert np.sort(off)[1] > 1e4 * off.min()
