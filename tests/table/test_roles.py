"""Treatment, outcome and arms of a table: which rows stay, and what the policy asks of them."""

import numpy as np

from fedci.errors import SizeError
from fedci.table import roles
from support.tables import ROWS, read, told

NAN = np.nan


def test_rows_without_treatment_or_outcome_are_counted_by_what_they_lack():
    w, y = np.array([0, 1, NAN, 1, 0, NAN]), np.array([1.0, NAN, 2.0, 3.0, NAN, NAN])
    assert roles.kept_rows(6, w, y).tolist() == [0, 3]
    assert roles.kept_rows(6, None, y).tolist() == [0, 2, 3]
    lost = roles.dropped_of(w, y)
    assert lost == roles.Dropped(treatment=2, untreated=1, treated=1)
    assert lost.in_words() == "2 rows without treatment, 2 rows without outcome"
    assert roles.Dropped().in_words() == ""


def test_a_single_arm_is_a_warning_where_it_is_allowed(frame):
    allowed = {"name": "simulation", "allow_single_arm": True}
    assert read(frame.assign(w=1), policy=allowed).warnings == (
        "site 'lyon': all rows are treated; effects here rest on the other sites",)
    assert "only untreated" in told(frame.assign(w=0))
    assert "needs 20" in told(frame.assign(w=[1] * 3 + [0] * (ROWS - 3)), SizeError, policy={"min_rows": 60})
