"""The generators: sizes, truth, and streams that do not depend on the order of the calls."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedci.errors import SourceError
from fedci.synthetic import datasets, ihdp
from fedci.synthetic.datasets import Sizes, synthetic

GENERATORS = [datasets.heterogeneous, datasets.overlap, datasets.linear, datasets.null]
SHARED = Path(__file__).parents[3] / "shared" / "data" / "ihdp"
IHDP = Path(os.environ.get(ihdp.VARIABLE, SHARED))
needs_ihdp = pytest.mark.skipif(not IHDP.is_dir(), reason=f"the IHDP files are not in {ihdp.VARIABLE} or shared/")


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


@needs_ihdp
def test_ihdp_is_the_trial():
    people = ihdp.records(0, IHDP)
    assert people.x.shape == (747, 25)
    assert people.w.sum() == 139
    assert people.cate[people.w == 1].mean() == pytest.approx(4.0, abs=0.1)  # ATT = 4 by construction
    assert set(people.x[:, 13]) == {0.0, 1.0}


@needs_ihdp
def test_ihdp_in_thirds_and_by_site():
    whole = ihdp.records(3, IHDP)
    contiguous, shuffled = ihdp.thirds(3, IHDP), ihdp.thirds(3, IHDP, shuffled=True)
    np.testing.assert_array_equal(contiguous[1].test.y, whole.y[249 + 83:249 + 166])
    everyone = np.concatenate([part.y for s in shuffled for part in (s.train, s.test, s.validation)])
    np.testing.assert_array_equal(np.sort(everyone), np.sort(whole.y))
    sites = ihdp.trial_sites(3, IHDP)
    assert sorted(len(s.train) + len(s.test) for s in sites) == sorted([101, 101, 117, 61, 55, 96, 118, 98])
    assert all(s.train.w.sum() >= 2 for s in sites)
    assert sites[0].train.x.shape[1] == 18


def test_missing_ihdp_files_are_explained(tmp_path, monkeypatch):
    monkeypatch.delenv(ihdp.VARIABLE, raising=False)
    with pytest.raises(SourceError, match=ihdp.VARIABLE):
        ihdp.records(0)
    with pytest.raises(SourceError, match="ihdp_npci_1.csv"):
        ihdp.records(0, tmp_path)
    (tmp_path / "ihdp_npci_1.csv").write_text("1,2\n3,4\n")
    with pytest.raises(SourceError, match="shape"):
        ihdp.records(0, tmp_path)
