"""Whether a kit's certificates still hold, and come from the kit's own authority: known before anybody is reached."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from fedci.network.kit import Kit

AUTHORITY = "rootCA.pem"


def problems(own: Kit, now: datetime | None = None) -> list[str]:
    """What is wrong with them, in words; empty: nothing."""
    folders = [own.engine / "startup"] + ([own.console / "startup"] if own.role == "coordinator" else [])
    return [words for folder in folders for path in sorted(folder.glob("*.crt"))
            if (words := _problem(path, folder / AUTHORITY, now or datetime.now(UTC)))]


def _problem(path: Path, authority: Path, now: datetime) -> str | None:
    try:
        own = x509.load_pem_x509_certificate(path.read_bytes())
        root = x509.load_pem_x509_certificate(authority.read_bytes())
    except (OSError, ValueError):
        return f"the certificate {path.name} or its authority cannot be read"
    try:
        own.verify_directly_issued_by(root)
    except (InvalidSignature, ValueError, TypeError):
        return f"the certificate {path.name} is not of the kit's authority"
    for certificate, what in ((own, path.name), (root, authority.name)):
        if now > certificate.not_valid_after_utc:
            return (f"the certificate {what} expired on {certificate.not_valid_after_utc:%Y-%m-%d}: make new kits "
                    f"(`fedci network new … --force`)")
        if now < certificate.not_valid_before_utc:
            return (f"the certificate {what} holds from {certificate.not_valid_before_utc:%Y-%m-%d}: is the clock here "
                    f"right?")
    return None
