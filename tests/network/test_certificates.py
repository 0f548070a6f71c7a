"""Certificates hold now, come from the kit's own authority, and end."""

from datetime import UTC, datetime, timedelta

import pytest

from fedci.errors import OutputError
from fedci.network import certificates, kit, operations
from fedci.network.provision import COORDINATOR, new_network

PARTIES = (COORDINATOR, "lyon", "oslo", "turin")


# --- certificates


def test_certificates_hold_now_and_not_in_two_years(made):
    for party in PARTIES:
        own = kit.read(made[0] / "kits" / party)
        assert certificates.problems(own) == []
        (late, *_), (early, *_) = (certificates.problems(own, datetime.now(UTC) + timedelta(days=days))
                                   for days in (800, -800))
        assert "expired on 20" in late
        assert "clock" in early


def test_a_certificate_of_another_authority_is_named_even_under_a_new_seal(kits, study, tmp_path):
    new_network(study, (), "localhost", tmp_path / "other", port=8443)
    own = kits / "kits" / "lyon"
    (own / "startup" / "client.crt").write_bytes((tmp_path / "other" / "lyon" / "startup" / "client.crt").read_bytes())
    kit.seal(own)
    with pytest.raises(OutputError, match="client.crt is not of the kit's authority"):
        operations.check_kit(own, "site")
    (own / "startup" / "client.crt").write_text("no certificate")
    kit.seal(own)
    with pytest.raises(OutputError, match="client.crt or its authority cannot be read"):
        operations.check_kit(own, "site")
