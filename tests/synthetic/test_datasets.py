"""The generators: sizes, truth, and streams that do not depend on the order of the calls."""

import numpy as np
import pytest

from fedci.synthetic import datasets
from fedci.synthetic.datasets import Sizes, synthetic

GENERATORS = [datasets.heterogeneous, datasets.overlap, datasets.linear, datasets.null]


def test_the_generator_is_the_papers():
    """Sizes, ranges and the identity of streams: a replication does not depend on which others were drawn."""
    splits = synthetic("DATA-1", 3)
    assert [(len(s.train), len(s.test), len(s.validation)) for s in splits] == [(50, 450, 400)] * 5
    x = np.concatenate([s.train.x for s in splits])
    assert x.shape == (250, 20)
    assert np.abs(x).max() <= 1
    again = synthetic("DATA-1", 3)
    np.testing.assert_array_equal(splits[2].test.y, again[2].test.y)
    assert np.array_equal(splits[0].train.y, np.where(splits[0].train.w == 1, splits[0].train.y1, splits[0].train.y0))


def test_parameters_once_or_per_replication():
    def surface(replication, **options):
        p = synthetic("DATA-1", replication, **options)[0].train
        design = np.column_stack([np.ones(len(p)), p.x])
        inverse = np.log(np.expm1(p.mu1))  # softplus⁻¹ is linear in x
        return np.linalg.lstsq(design, inverse, rcond=None)[0]

    np.testing.assert_allclose(surface(0), surface(1), rtol=1e-6)
    assert np.abs(surface(0, parameters="per-replication") - surface(1, parameters="per-replication")).max() > 0.5
    assert surface(0)[0] == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("generate", GENERATORS)
def test_every_generator_knows_its_truth(generate):
    sizes = Sizes(sources=3, train=40, test=30, validation=10)
    splits = generate(2, sizes=sizes)
    assert [(len(s.train), len(s.test), len(s.validation)) for s in splits] == [(40, 30, 10)] * 3
    for split in splits:
        people = split.train
        np.testing.assert_array_equal(people.y, np.where(people.w == 1, people.y1, people.y0))
        assert set(people.w) == {0, 1}
    again = generate(2, sizes=sizes)
    np.testing.assert_array_equal(splits[1].test.y, again[1].test.y)
    assert not np.array_equal(splits[1].test.y, generate(3, sizes=sizes)[1].test.y)


def test_the_null_has_no_effect_for_anyone():
    for split in datasets.null(0):
        np.testing.assert_array_equal(split.train.cate, 0.0)


def test_heterogeneous_sites_differ_and_the_others_do_not():
    """Standard deviation of the sites' mean effects, against that of a mean of 1000 people (below 0.1)."""
    big = Sizes(sources=6, train=1000, test=0, validation=0)

    def spread(generate):
        return np.std([s.train.cate.mean() for s in generate(0, sizes=big)])

    assert spread(datasets.heterogeneous) > 0.3
    assert spread(datasets.linear) < 0.1


def test_poor_overlap_is_poor():
    """Most people are treated with a probability outside 0.1 … 0.9."""
    people = datasets.overlap(0, sizes=Sizes(1, 1000, 0, 0))[0].train
    means = [people.x[people.w == j].mean(0) for j in (0, 1)]
    assert np.linalg.norm(means[1] - means[0]) > 1.2
