"""The attack on noised sums: its material is what left real sites, it finds people where no noise is, and its score
counts."""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[3] / "assurance"))

import noised_doors  # noqa: E402
import noised_studies  # noqa: E402
import noised_sums as attack  # noqa: E402
import people  # noqa: E402
import run  # noqa: E402

FEW = 1e-4


@pytest.fixture(scope="module")
def model():
    return attack.model_at(attack.SUM_NOISE)


@pytest.fixture(scope="module")
def heard():
    """With all its noise, of sites that `standard` lets through."""
    return attack.admitted()


@pytest.fixture(scope="module")
def bare():
    """Of few people, with no noise to speak of."""
    return attack.from_doors(60, 60, FEW)


def test_of_fewer_people_than_are_asked_for_more_is_told(model):
    """Noise is measured by what a person weighs among so many: with fewer the promise would be broken, so sites refuse.
    """
    numbers = [place for place, name in enumerate(attack.NAMES) if name != "0/1"]
    few, enough = (attack.bound(model, *attack.people(count, 0))[:, numbers].min() for count in (25, model.arm_needed))
    assert few < 0.5 * attack.SUM_NOISE < attack.SUM_NOISE < enough


def test_what_the_attack_reckons_is_what_a_site_answers(model):
    attack.is_the_packages(model, *attack.people(60, 0))


@pytest.mark.parametrize("step", ["AskMeans", "AskSpreads", "AskProducts", "AskSharedEffects"])
def test_what_the_attacker_has_is_what_the_sites_sent(heard, step):
    """Bytes through doors, under masks: the total that was opened is the sum of the sites' parts, to the masks' steps;
    less all sites' but one it is that one's."""
    total, alone = heard.left(step, ()), heard.left(step, heard.sites[1:])
    for name, part in heard.own[heard.sites[0], step].items():
        every = sum(np.asarray(heard.own[site, step][name], float) for site in heard.sites)
        size = np.abs(every).max(initial=1e-9)
        np.testing.assert_allclose(total[name], every, rtol=0, atol=1e-9 * size)
        np.testing.assert_allclose(alone[name], part, rtol=0, atol=1e-9 * size)


@pytest.mark.parametrize("colluding", [(), ("site-0",), ("site-0", "site-2")])
def test_what_is_parsed_is_the_truth_but_for_the_noise(heard, bare, colluding):
    """Without noise to speak of equal, in units in which it is 1; with it, as far off as it is said to be."""
    for one in (heard, bare):
        task = attack.material(one, colluding)
        away = (task.numbers - np.asarray(attack.sums(one.model, task.whom, jnp.asarray(task.whom.rows)))) / task.noise
        assert np.abs(away).max() < 5.0  # of some hundred normal numbers
        if one is heard:
            assert np.mean(away**2) == pytest.approx(1.0, abs=5 * (2 / len(away)) ** 0.5)  # χ² over its mean


def test_effects_give_each_sites_sums_of_its_arms_away(heard):
    """So each has all of the noise that is owed (and a sum over sites more)."""
    away = []
    for site, found in noised_doors.solved_sums(heard).items():
        rows = np.clip(heard.truth[site].rows, [-3.0] * 5 + [-4.0], [3.0] * 5 + [4.0])
        truth = np.stack([rows[heard.truth[site].arms == arm].sum(0) for arm in (0, 1)])
        away.append((found.sums - truth) / noised_doors.owed(heard.model, "effects"))
    assert 0.3 < np.mean(np.square(away)) < 2.4  # χ² of 36 over 36: beyond with probability 1e-5 on either side


@pytest.mark.parametrize(("sites", "colluding", "left"), [(3, 1, 1.0), (4, 2, (2 / 3) ** 0.5), (10, 1, 1.0),
                                                          (10, 4, (6 / 9) ** 0.5)])
def test_what_colluding_sites_leave_of_the_noise(sites, colluding, left):
    assert attack.left_of_noise(sites, colluding) == pytest.approx(left)


def test_without_noise_a_whole_row_is_found_and_with_it_none(heard, bare):
    """Of three people, all others known."""
    found = attack.attack_each(attack.material(bare), 3, 2, noise=FEW / attack.SUM_NOISE)
    assert found.near == 3
    assert attack.attack_each(attack.material(heard), 3, 1).beyond == 0


def test_nobody_could_be_known_nearer_than_is_promised(model):
    """By the bound, at the smallest site that is let take part, whoever stands at the corner of all cuts too."""
    left = attack.bound(model, *attack.people(model.arm_needed, 1))
    assert left[:, [0, 1, 2, 3, 5]].min() > attack.SUM_NOISE


def everybody(count):
    """`count` of each arm at each of three sites, untreated and treated in turn."""
    parts = [attack.people(count, k) for k in range(3)]
    rows = np.concatenate([np.column_stack([x, y]) for x, _, y in parts])
    return attack.People(rows, np.concatenate([w for _, w, _ in parts]), (2 * count, 4 * count), np.full((3, 6), 4.0))


def test_people_of_an_arm_and_site_are_paired_and_others_are_not():
    whom = everybody(4)
    free = np.ones(whom.rows.shape, bool)
    turned = whom.rows.reshape(3, 4, 2, -1)[:, ::-1].reshape(whom.rows.shape)  # another order within arms of sites
    assert attack.score(whom, turned, free).near == 24
    assert attack.score(whom, np.roll(whom.rows, 8, 0), free).near < 24
    free[:, 1:] = False
    assert attack.score(whom, whom.rows, free).near == 24
    assert attack.score(whom, turned, free, regression=False).near < 24  # whose value it is is known here


def test_every_row_of_the_page_is_one_of_its_script():
    for rows, script in ((run.PEOPLE, people), (run.NOISED, attack), (run.STUDIES, noised_studies)):
        assert rows.keys() == script.ROWS.keys()
