"""Small hospitals in which values are missing, and a study of them up to its first round."""

import numpy as np
import pandas as pd

from fedci import Source
from fedci.coordinator import coordinator
from fedci.coordinator.talk import Talk
from fedci.protocol import course
from fedci.protocol.course import Contract
from fedci.site.site import Site
from support.masked import one_round
from tests_support import Wire, frame, small

SIZES = (40, 37, 39)
DRAWN = {"preset": "default", "missing": "model", "options": small(6)}


def table(number: int, rows: int, lacks: tuple[str, ...] = ("bmi", "sex")) -> pd.DataFrame:
    """Values are missing more often of the old, and at the last site a column altogether."""
    made, rng = frame(rows, number), np.random.default_rng((number, 5))
    made["sex"] = made["sex"].astype(float)
    for column in lacks:
        made.loc[rng.uniform(size=rows) < 0.1 + 0.4 * (made.age > 60), column] = np.nan
    if number == 2:
        made["bmi"] = np.nan
    return made


def sources(order=(0, 1, 2)) -> list[Source]:
    return [Source(f"site-{number}", table(number, SIZES[number])) for number in order]


def opened(agreed, tables):
    """(talk, contract, what all know, (L, ∇L) of the first round) of sites with these tables."""
    sites = {source.name: Site(agreed, source.read(agreed)) for source in tables}
    talk, contract = Talk(Wire(sites), "run"), Contract(agreed, tuple(sorted(sites)))
    coordinator.handshake(talk, contract)
    talk, known = coordinator.open_course(talk, contract)
    talk.follow(course.design(contract, known))
    known = talk.follow(course.completed(contract, known))
    return talk, contract, known, one_round(talk, contract, known)
