"""A wrapped key opens for its site, run and study alone; a key from a file."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedci.errors import MessageError, UsageError
from fedci.privacy.agreement import Context, read_key, token_key, unwrap, wrap
from support.linked import KEY, public

# ── the key ─────────────────────────────────────────────────────────────────────────────────────────────────
CONTEXT = Context("run", "hash")


def test_only_its_site_run_and_study_open_a_wrapped_key():
    lead, site, other = (X25519PrivateKey.generate() for _ in range(3))
    closed = wrap(KEY, lead, public(site), CONTEXT, "a", "b")
    assert unwrap(closed, site, public(lead), CONTEXT, "a", "b") == KEY
    assert KEY.hex() not in closed
    changed = f"{int(closed[0], 16) ^ 1:x}{closed[1:]}"
    for wrong in ((closed, other, public(lead), CONTEXT, "a", "b"), (closed, site, public(other), CONTEXT, "a", "b"),
                  (closed, site, public(lead), Context("other", "hash"), "a", "b"),
                  (closed, site, public(lead), Context("run", "other"), "a", "b"),
                  (closed, site, public(lead), CONTEXT, "c", "b"), (closed, site, public(lead), CONTEXT, "a", "c"),
                  (changed, site, public(lead), CONTEXT, "a", "b"), ("zz", site, public(lead), CONTEXT, "a", "b"),
                  (closed, site, "00" * 32, CONTEXT, "a", "b"), (closed, site, "00", CONTEXT, "a", "b")):
        with pytest.raises(MessageError):
            unwrap(*wrong)


def test_another_study_has_other_tokens_even_with_the_same_file():
    assert token_key(KEY, "one") == token_key(KEY, "one")
    assert token_key(KEY, "one") != token_key(KEY, "two")


def test_a_key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(KEY.hex() + "\n")
    assert read_key(path) == KEY
    for text, problem in ((KEY.hex()[:62], "248 bits, needs 256"), ("", "0 bits"), ("secret", "hexadecimal"),
                          ("é" * 64, "hexadecimal"), ("ab" * 32, "no random key")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=problem) as told:
            read_key(path)
        assert len(text) < 6 or text not in str(told.value)
    with pytest.raises(UsageError, match="cannot be read"):
        read_key(tmp_path / "nowhere")
