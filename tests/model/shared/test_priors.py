"""The priors of θ are the table's, entry by entry; and docs/model.md shows that table."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from priors_page import with_priors

from fedci.model import families
from fedci.model.shared import priors
from fedci.model.shared.shared_family import SharedFamily
from fedci.study.options import SharedOptions

PAGE = Path(__file__).parents[3] / "docs" / "model.md"
CHOICES = [{}, {"directions": 0}, {"directions": 3, "common": False, "tails": None}, {"kernel": "rbf(ard, scale)"}]


def model_of(choice: dict, d: int = 4) -> SharedFamily:
    return families.model_of(SharedOptions(family="shared", **choice), d, d, 2)


def entry(value: priors.Value, name: str) -> float:
    """Of a part's entry: a root's number stands where its last index says, a scale's under its name."""
    if isinstance(value, Mapping):
        return value[name.partition("[")[0].rpartition(".")[2]]
    return value[int(name.rstrip("]").split(",")[-1].split("[")[-1])] if isinstance(value, tuple) else value


@pytest.mark.parametrize("choice", CHOICES)
def test_every_entry_of_theta_has_the_law_of_its_row(choice):
    model = model_of(choice)
    for name, mean, sd, heavy in zip(model.names(), *model.prior, model.heavy_tailed, strict=True):
        row = priors.TABLE[name.partition("[")[0].partition(".")[0]]
        centre = 0.5 * np.log(4) if "log_length" in name else 0.0
        assert (mean, sd) == (centre + entry(row.mean, name), entry(row.sd, name))
        assert heavy == (row.law == "Student's t" and model.options.tails is not None)


def test_an_option_that_is_off_takes_its_parts_out_of_theta():
    gone = {part for part, row in priors.TABLE.items() if row.option == "common"}
    with_all, without = (set(priors.table(model_of(choice).options)) for choice in ({}, {"common": False}))
    assert with_all - without == gone == {"common", "direction_common"}


def test_the_start_is_the_tables():
    model = model_of({"directions": 2})
    for column, theta in (("start", model.starts), ("ridge", model.ridge)):
        for part, row in priors.table(model.options).items():
            value = getattr(row, column)
            if part != "kernel":
                np.testing.assert_array_equal(theta[part], np.broadcast_to(row.mean if value is None else value,
                                                                           theta[part].shape))


def test_every_row_has_its_reason():
    assert all(row.reason and row.letter for row in priors.TABLE.values())


def test_theta_has_the_shapes_of_the_table():
    model = model_of({"directions": 2})
    sizes = {"d": 4, "K": 2, "A": 2, "A - 1": 1}
    for theta in (priors.means(model.options, 4), model.starts, model.ridge):
        assert theta.keys() == priors.table(model.options).keys()
        assert all(theta[part].shape == tuple(sizes.get(length, length) for length in row.shape)
                   for part, row in priors.table(model.options).items() if row.shape != ("k",))


def test_the_page_shows_the_table():
    text = PAGE.read_text(encoding="utf-8")
    assert with_priors(text) == text, "run `make priors`"


@pytest.mark.parametrize(("d", "k"), [(20, 2), (3, 0), (5, 4)])
def test_the_pages_counts_of_numbers(d, k):
    """docs/model.md: q = 2(2 + d + KJ + M) + 1 columns, p = (d + 5)K + 3d + 25 parameters."""
    model = model_of({"directions": k, "knots": 7}, d)
    assert (model.columns, model.size) == (2 * (2 + d + 7 * k + 32) + 1, (d + 5) * k + 3 * d + 25)


def test_outcomes_of_0_and_1_have_no_noise_and_their_own_scale():
    """What starts elsewhere than at the prior's mean keeps its distance from it; all else is as it was."""
    options = SharedOptions(family="shared")
    numeric, binary = priors.table(options), priors.table(options, "binary")
    assert set(numeric) - set(binary) == {"noise"}
    for part, prior in binary.items():
        before = numeric[part]
        assert (prior.sd, prior.law, prior.shape) == (before.sd, before.law, before.shape)
        if before.binary is None:
            assert prior == before
            continue
        assert prior.mean == before.binary
        for now, then in ((prior.start, before.start), (prior.ridge, before.ridge)):
            assert (now is None) == (then is None)
            if now is not None:
                np.testing.assert_allclose(np.subtract(now, prior.mean), np.subtract(then, before.mean), atol=1e-12)
