"""Where a run stood: read by the run it belongs to, whole or not at all."""

import pytest

from fedci import FedCI
from fedci.coordinator.checkpoint import Mark, load
from fedci.errors import FedciError
from fedci.network.rehearsal import SITES
from fedci.protocol import course
from support.masked import SIZES, plan
from tests_support import hospitals


def test_a_run_in_one_process_goes_on_and_its_sites_follow_the_fit_again(tmp_path):
    """The coordinator's checkpoint tells the new sites where the fit stood; from there they check each request."""
    agreed, path = plan(), tmp_path / "kept.npz"
    whole = FedCI(agreed).fit(hospitals(*SIZES))

    def stop(seen):
        if seen.number == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FedCI(agreed).fit(hospitals(*SIZES), progress=stop, checkpoint=path)
    again = FedCI(agreed)
    sites = again.sites([source.read(agreed) for source in hospitals(*SIZES)])
    found = again.fit_sites(sites, checkpoint=path)
    assert found.outcome.fit.theta.tobytes() == whole.outcome.fit.theta.tobytes()
    assert found.ate().mean == whole.ate().mean
    for site in sites.values():
        places = site.run.course.places
        assert places[max(places)].leg == course.CLOSING
        assert sum(place.leg == course.ROUND for place in places.values()) == 1  # the checkpoint is of round 5, of 6


def test_a_checkpoint_of_another_study_is_not_used_and_a_damaged_one_is_named(tmp_path):
    mark, path = Mark("a", SITES), tmp_path / "c.npz"
    first = load(path, mark, "run-1")
    first.linked = [{}, []]
    first.write()
    assert load(path, mark, "run-2").run == "run-1"
    assert load(path, Mark("b", SITES), "run-2").run == "run-2"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FedciError, match="damaged"):
        load(path, mark, "run-2")


def test_a_disk_that_cannot_be_written_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    kept = load(tmp_path / "c.npz", Mark("a", SITES), "run-1")
    kept.write()
    before = (tmp_path / "c.npz").read_bytes()
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(FedciError, match="No space left"):
        kept.write()
    assert (tmp_path / "c.npz").read_bytes() == before
