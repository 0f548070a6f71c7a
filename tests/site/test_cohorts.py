"""Cohorts that differ by few: the later one is refused."""

import numpy as np
import pytest

from fedci import Source
from fedci.errors import OutputError
from fedci.protocol.messages import AskMoments, Hello, Refusal, Reply
from fedci.site.cohorts import FILE, Releases, difference, fingerprints
from fedci.site.site import Site
from fedci.version import __version__
from tests_support import frame, study

KEY = bytes(range(32))
STANDARD = {"name": "standard"}


def hello(site: Site, run="run", **changes) -> Hello:
    options = site.run.study.fit_options().model_dump(mode="json")
    return Hello(run, 1, site.name, __version__, site.run.study.hash(), options | changes)


def told(rows, folder, agreed=None, **policy):
    """The answer of a site with these rows to a question for its moments; the folder is its kit."""
    agreed = agreed or study(policy=STANDARD | policy)
    site = Site(agreed, Source("a", rows).read(agreed), releases=Releases(folder, KEY))
    site.answer(hello(site))
    return site.answer(AskMoments("run", 2, "a"))


# --- differencing


def test_one_patient_more_is_refused_and_the_same_patients_are_not(tmp_path):
    rows = frame(130, 0)
    assert isinstance(told(rows.iloc[:100], tmp_path), Reply)
    assert isinstance(told(rows.iloc[:100], tmp_path), Reply)
    assert isinstance(told(rows.iloc[:100].sample(frac=1, random_state=0), tmp_path), Reply)  # in another order
    refused = told(rows.iloc[:101], tmp_path)
    assert isinstance(refused, Refusal)
    assert refused.code == "disclosure"
    assert "differ from those of an earlier release by 1," in refused.reason
    assert "20 people more or fewer" in refused.reason
    assert isinstance(told(rows.iloc[:120], tmp_path), Reply)  # twenty are a group that may be told of


def test_one_patient_exchanged_and_one_left_out_are_refused(tmp_path):
    rows = frame(130, 0)
    assert isinstance(told(rows.iloc[:100], tmp_path), Reply)
    for other in (rows.iloc[1:101], rows.iloc[1:100], rows.iloc[:100].assign(bmi=rows.bmi.iloc[:100].replace(
            rows.bmi.iloc[3], 40.0))):
        assert isinstance(told(other, tmp_path), Refusal)


def test_every_earlier_release_counts(tmp_path):
    rows = frame(200, 0)
    for start in (0, 40, 80):
        assert isinstance(told(rows.iloc[start:start + 80], tmp_path), Reply)
    for start in (1, 39, 81):
        assert isinstance(told(rows.iloc[start:start + 80], tmp_path), Refusal), start


def test_with_ids_a_person_is_the_same_though_a_value_changed(tmp_path):
    agreed = study(policy=STANDARD, ids=("id",))
    rows = frame(100, 0).assign(id=[f"p{k}" for k in range(100)])
    assert isinstance(told(rows, tmp_path, agreed), Reply)
    assert isinstance(told(rows.assign(bmi=rows.bmi + 1), tmp_path, agreed), Reply)
    assert isinstance(told(rows.assign(id=[f"p{k + 1}" for k in range(100)]), tmp_path, agreed), Refusal)


def with_treated(rows, count: int):
    """The first `count` treated, the others not: a cohort whose arms are known."""
    return rows.assign(w=(np.arange(len(rows)) < count).astype(int))


def test_an_arm_counts_as_much_as_the_whole(tmp_path):
    """The outcome's moments leave for each arm: 25 people fewer, five of them treated, would tell of the five."""
    rows = with_treated(frame(145, 0), 25)
    assert isinstance(told(rows, tmp_path), Reply)
    refused = told(rows.iloc[5:125], tmp_path)
    assert isinstance(refused, Refusal)
    assert "differ from those of an earlier release by 5," in refused.reason
    assert "policy.min_cell" in refused.reason
    assert isinstance(told(rows.iloc[:125], tmp_path), Reply)  # the same treated, 20 untreated fewer


def test_one_treatment_corrected_is_refused(tmp_path):
    """The same people by their ids, and one of them in the other arm."""
    agreed = study(policy=STANDARD, ids=("id",))
    rows = with_treated(frame(100, 0), 50).assign(id=[f"p{k}" for k in range(100)])
    assert isinstance(told(rows, tmp_path, agreed), Reply)
    assert isinstance(told(rows.assign(w=rows.w.where(rows.index != 3, 0)), tmp_path, agreed), Refusal)


def test_the_memory_holds_no_person(tmp_path):
    """Fingerprints under the site's key: nobody without it can ask for a person."""
    told(frame(100, 0), tmp_path)
    with np.load(tmp_path / FILE) as file:
        kept = [file[name] for name in file.files]
    assert [one.dtype for one in kept] == [np.uint64] * 2
    assert sum(map(len, kept)) == 100
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0
    people = [bytes([k]) for k in range(100)]
    assert difference(fingerprints(people, KEY), fingerprints(people, KEY[::-1])) == 200


def test_without_its_memory_a_site_tells_nothing(tmp_path):
    told(frame(100, 0), tmp_path)
    (tmp_path / FILE).write_bytes(b"PK damaged")
    assert "damaged" in told(frame(100, 0), tmp_path).reason
    with pytest.raises(OutputError, match="backup"):
        Releases(tmp_path, KEY).known()


def test_simulated_people_are_not_remembered(tmp_path):
    agreed = study()
    assert isinstance(told(frame(60, 0), tmp_path, agreed), Reply)
    assert isinstance(told(frame(61, 0), tmp_path, agreed), Reply)
    assert not (tmp_path / FILE).exists()
