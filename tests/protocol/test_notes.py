"""Every note has one form, and nothing else passes for it."""

import pytest

from fedci.protocol.notes import MOST_PEOPLE, NOTES
from fedci.protocol.requests import REQUESTS

SITES = ("a", "b")
GOOD = {"warnings": ["a sentence"], "people": 0, "excluded": MOST_PEOPLE, "fingerprint": "0f" * 16, "public": "0f" * 32,
        "signature": "", "wrapped": {"b": "0f" * 48}, "shares": {"a": "0f" * 82, "b": "0f" * 82},
        "opened": {"a": "0f" * 66, "b": "0f" * 66}, "jitter": 1e-8}
BAD = (None, "zz", "0F" * 16, -1, 0.5j, MOST_PEOPLE + 1, float("nan"), True, {}, {"nobody": "00"}, [1], 2.0)


def test_every_note_of_the_table_has_a_form():
    named = {name for row in REQUESTS.values() for secure in (False, True) for name in row.notes_beside(secure)}
    assert named == set(NOTES)


@pytest.mark.parametrize("name", NOTES)
def test_a_note_of_its_form_fits_and_no_other(name):
    assert NOTES[name].fits(GOOD[name], "a", SITES)
    assert not any(NOTES[name].fits(one, "a", SITES) for one in BAD)
