"""The attack on noised sums: its sums are the package's, it finds people where no noise is, and its score counts."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[3] / "assurance"))

import noised_sums as attack  # noqa: E402


@pytest.fixture(scope="module")
def model():
    return attack.model_at(attack.SUM_NOISE)


def test_what_the_attack_reckons_is_what_a_site_answers(model):
    attack.is_the_packages(model, *attack.people(60, 0))


def test_without_noise_a_whole_row_is_found_and_with_it_none(model):
    """Of three of 360 people, all others known."""
    found = attack.attack_each(model, 60, 3, 2, noise=attack.LITTLE)
    assert found.near == 3 > found.beyond - 1
    assert attack.attack_each(model, 60, 3, 1).beyond == 0


def test_nobody_could_be_known_nearer_than_is_promised(model):
    """By the bound, at the smallest site that is let take part, whoever stands at the corner of all cuts too."""
    left = attack.bound(model, *attack.people(model.arm_needed, 1))
    assert left[:, [0, 1, 2, 3, 5]].min() > attack.SUM_NOISE


def test_people_of_an_arm_and_site_are_paired_and_others_are_not():
    whom = attack.everybody(4, 0)  # 8 people of each site, untreated and treated in turn
    free = np.ones(whom.rows.shape, bool)
    turned = whom.rows.reshape(3, 4, 2, -1)[:, ::-1].reshape(whom.rows.shape)  # another order within arms of sites
    assert attack.score(whom, turned, free).near == 24
    assert attack.score(whom, np.roll(whom.rows, 8, 0), free).near < 24
    free[:, 1:] = False
    assert attack.score(whom, whom.rows, free).near == 24
    assert attack.score(whom, turned, free, regression=False).near < 24  # whose value it is is known here
