"""What a job process does at each party."""

import numpy as np
import pytest

from fedci.errors import MessageError
from fedci.network import kit, party
from fedci.network.party import coordinate
from fedci.network.provision import COORDINATOR


def test_a_coordinator_notes_which_site_broke(kits, study):
    """Of the numbers of a whole study one site's are changed on the way."""
    own = kit.read(kits / "kits" / COORDINATOR)

    class Broken:
        sites, traffic = ("lyon", "oslo"), {}

        def wait_ready(self):
            pass

        def exchange(self, requests):
            raise MessageError("site 'oslo': the message was damaged on its way", site="oslo")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedci.coordinator.retry.PAUSE", 0.0)
        patch.setattr("time.sleep", lambda seconds: None)
        coordinate(own, Broken(), {"seed": 0, "out": str(kits / "out")})
    last = kit.events(own.run)[0][-1]
    assert (last["event"], last["code"], last["site"]) == ("failed", "message", "oslo")


def test_places_of_another_run_are_not_taken_nor_damaged_ones(tmp_path):
    np.savez(tmp_path / "place-a-1.npz", leg=np.array("start"))
    for name in ("place-a-b-2.npz", "place-a-.npz", "place-a--3.npz", "place-A-4.npz"):
        np.savez(tmp_path / name, leg=np.array("start"))
    (tmp_path / "place-a-5.npz").write_bytes(b"PK damaged")
    assert party._place_files(tmp_path, "a").keys() == {1, 5}
    assert party._places(tmp_path, "a").keys() == {1}
