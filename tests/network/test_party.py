"""What a job process does at each party."""

import numpy as np
import pytest

from fedci.errors import HandshakeError, MessageError, OutputError
from fedci.network import kit, party
from fedci.network.operations import check_site
from fedci.network.party import coordinate
from fedci.network.provision import COORDINATOR
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Hello, Reply, Step
from fedci.site import ledger, opening, store
from fedci.site.accountant import Accountant
from fedci.site.site import Site
from fedci.version import __version__
from support.masked import with_identities
from tests_support import hospitals, study


def test_a_coordinator_notes_which_site_broke(kits):
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
        coordinate(own, Broken(), {"out": str(kits / "out")})
    last = kit.events(own.run)[0][-1]
    assert (last["event"], last["code"], last["site"]) == ("failed", "message", "oslo")


def test_places_of_another_run_are_not_taken_nor_damaged_ones(tmp_path):
    np.savez(tmp_path / "place-a-1.npz", leg=np.array("start"))
    for name in ("place-a-b-2.npz", "place-a-.npz", "place-a--3.npz", "place-A-4.npz"):
        np.savez(tmp_path / name, leg=np.array("start"))
    (tmp_path / "place-a-5.npz").write_bytes(b"PK damaged")
    assert party._place_files(tmp_path, "a").keys() == {1, 5}
    assert party.places(tmp_path, "a").keys() == {1}


# --- the site's store, which is no part of a kit


def answered(folder, keep) -> None:
    """A site's job process that answers the first two requests of a run, with the store in a folder."""
    own = kit.read(folder / "kits" / "lyon", "site")
    party.write_run(own, {"data": str(folder / "lyon" / "cohort.csv"), "approve": False, "patience": 1.0,
                          "store": str(keep)})
    site, cohort = party.SiteParty(own), dict.fromkeys(own.study.sites, True)
    try:
        for request in (Hello("run", 1, "lyon", __version__, own.study_hash, cohort),
                        Step("run", 2, "lyon", "AskColumns")):
            assert isinstance(decode(site.answer(encode(request))), Reply)
    finally:
        site.ended()


def checked(folder, keep) -> str:
    said = []
    check_site(folder / "kits" / "lyon", folder / "lyon" / "cohort.csv", said.append, keep=keep)
    return "\n".join(said)


def test_a_site_keeps_of_whom_it_told_outside_its_kit_and_says_how_much(kits):
    keep = kits / "store"
    assert "store      none yet: the first run begins it in" in checked(kits, keep)
    assert not keep.exists()
    answered(kits, keep)
    assert Accountant(keep).counts[:3] == (1, 40, 1)
    assert "1 cohorts of 40 people told of in 1 runs" in checked(kits, keep)
    assert kit.check_seal(kit.read(kits / "kits" / "lyon")) == []


def test_a_site_whose_store_is_lost_refuses_before_it_connects_and_its_ledger_notes_a_new_one(kits):
    keep = kits / "store"
    answered(kits, keep)
    store.backup(keep, kits / "copy")
    (keep / store.FILE).unlink()
    for use in (checked, answered):
        with pytest.raises(OutputError, match="fedci site store restore"):
            use(kits, keep)
    store.restore(keep, kits / "copy")
    answered(kits, keep)
    store.create(keep, "a disk was lost")
    answered(kits, keep)
    answered(kits, keep)
    notes = [entry["reason"] for entry in ledger.read(kits / "kits" / "lyon") if entry["reply"] == ledger.NOTE]
    notes = [note for note in notes if "begun anew" in note]  # beside it the ledger notes the site's own policy
    assert len(notes) == 1
    assert notes[0].endswith("a disk was lost")


def test_where_the_study_names_no_sites_the_cohort_is_the_kits():
    """Else a coordinator could name a site alone, and see its sums without masks."""
    known = with_identities()
    plan = study()
    site = Site(plan, hospitals(40)[0].read(plan), known["site-0"])

    def asked(*cohort):
        return opening.hello(site.party, site.run, Hello("run", 1, "site-0", __version__, plan.hash(),
                                                         dict.fromkeys(cohort, True)))

    assert asked(*known)[0].contract.sites == ("site-0", "site-1", "site-2")
    for cohort in (["site-0"], ["site-0", "site-1"], ["site-0", "site-1", "site-9"], ["site-1", "site-2"]):
        with pytest.raises(HandshakeError, match="the cohort that the coordinator names"):
            asked(*cohort)
