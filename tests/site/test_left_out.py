"""What the model says of each person without that person, by the type of the outcome: in its units and its range."""

import numpy as np
import pandas as pd
import pytest

from fedci import FedCI, Source, Study
from fedci.model.rows import BetaLaw
from fedci.site.left_out import predicted

FEW = {"model": {"directions": 1, "knots": 3, "landmarks": 4, "inducing": 16}, "optimiser": {"rounds": 3, "draws": 4},
       "prediction": {"draws": 32}}
OUTCOMES = {"binary": {"name": "died", "type": "binary"}, "count": {"name": "falls", "type": "count"},
            "survival": {"time": "days", "event": "died", "type": "survival", "horizons": [6.0]}}
ROWS = 40


@pytest.mark.parametrize("kind", list(OUTCOMES))
def test_predictions_are_in_the_units_of_the_outcome(kind):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.normal(size=ROWS), "drug": np.arange(ROWS) % 2, "died": rng.integers(0, 2, ROWS),
                          "days": rng.uniform(1, 8, ROWS), "falls": rng.poisson(2.0, ROWS)})
    study = Study(treatment="drug", outcome=OUTCOMES[kind], covariates=["age"], policy="simulation", options=FEW,
                  diagnostics={"enabled": False})
    people = FedCI(study).fit([Source("lyon", frame)]).people["lyon"]
    model, beta = people.ready.model, np.asarray(people.q.draws.beta)[:2]
    law = BetaLaw(beta.mean(1), np.broadcast_to(5.0 * np.eye(model.columns), (2, model.columns, model.columns)))
    told = predicted(people.table, people.ready.units, model, people.ready.rows, people.q, law)
    assert len(told.y) == len(told.mean) == len(told.person)
    assert set(told.person) == set(range(ROWS))
    assert (told.sd > 0).all()
    if kind == "count":
        assert told.mean.mean() == pytest.approx(frame.falls.mean(), rel=0.4)
    else:
        assert ((told.mean > 0) & (told.mean < 1)).all()
        assert told.y.sum() == people.table.y.sum()
