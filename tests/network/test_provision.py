"""One kit per party: private, whole, and nothing written of what cannot be made."""

import stat

import pytest

from fedci.errors import DisclosureError, StudyError, UsageError
from fedci.network import operations
from fedci.network.provision import COORDINATOR, new_network
from fedci.study.study import Study

PARTIES = (COORDINATOR, "lyon", "oslo", "turin")


def test_every_party_gets_a_kit_that_passes_its_own_check(made, study):
    for party in PARTIES:
        own = operations.check_kit(made[0] / "kits" / party, "coordinator" if party == COORDINATOR else "site")
        assert (own.name, own.study.hash(), own.sites) == (party, study.hash(), study.sites)


def test_only_the_owner_can_read_any_of_it(made):
    for path in (made[0] / "kits" / "lyon").rglob("*"):
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path.name


def test_private_keys_are_in_one_kit_only(made):
    found = [path.read_bytes() for party in PARTIES for path in (made[0] / "kits" / party).rglob("*.key")]
    assert len(found) == len(set(found)) == 2 * 3 + 2


def test_what_cannot_be_made_is_said_before_anything_is_written(study, tmp_path):
    alone = study.model_copy(update={"sites": ()})
    for sites, error, words in (((), UsageError, "no site was named"), (("lyon", "lyon"), UsageError, "repeated"),
                                (("coordinator",), UsageError, "other side's name"),
                                (("Lyon!",), StudyError, "characters")):
        with pytest.raises(error, match=words):
            new_network(alone, sites, "localhost", tmp_path / "kits")
    with pytest.raises(StudyError, match="not in the study"):
        new_network(study, ("bern",), "localhost", tmp_path / "kits")
    with pytest.raises(DisclosureError, match="at least 3 sites, got 2"):
        new_network(Study.model_validate(alone.model_dump() | {"policy": "standard"}), ("lyon", "oslo"), "localhost",
                    tmp_path / "kits")
    assert not (tmp_path / "kits").exists()


def test_a_quorum_above_the_sites_is_refused(study):
    with pytest.raises(StudyError, match="quorum = 4 is more than the 3 sites"):
        study.model_validate(study.model_dump() | {"quorum": 4})


def test_a_site_may_have_a_dash_in_its_name(study, tmp_path):
    made = new_network(study.model_copy(update={"sites": ()}), ("saint-denis", "oslo"), "localhost", tmp_path / "kits")
    assert operations.check_kit(made["saint-denis"], "site").name == "saint-denis"
