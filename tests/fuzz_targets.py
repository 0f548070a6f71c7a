"""What is fuzzed: the three places where bytes from elsewhere come in. Each target takes any bytes and must come back
with an answer or an error of ours, in bounded memory; anything else is a bug."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fedci import Source, Study
from fedci.errors import FedciError
from fedci.protocol.codec import MAGIC, decode, encode, sealed

AGREED = Study(treatment="w", outcome="y", ids=("id",), policy="simulation", preset="classic", missing="impute",
               covariates={"age": {"range": [0, 120]}, "sex": "binary",
                           "stage": {"type": "categorical", "levels": ["I", "II", "III"]}})
PLACE = Path(tempfile.gettempdir())


def messages(data: bytes) -> bool:
    """As it came, and with a check that fits: the check must not keep the fuzzer out. True: it was a message."""
    found = False
    for one in (data, sealed(data), sealed(MAGIC + data[4:])):
        try:
            message = decode(one)
        except FedciError:
            continue
        assert decode(encode(message)) is not None
        found = True
    return found


def study(data: bytes) -> bool:
    """As a file's text. True: it was a study."""
    try:
        read = Study.from_toml(data.decode("utf-8", "replace"))
        assert Study.from_toml(read.to_toml()).hash() == read.hash()
    except FedciError:
        return False
    return True


def csv(data: bytes) -> bool:
    """As a site's file. True: it was a table."""
    with tempfile.NamedTemporaryFile(suffix=".csv", dir=PLACE) as file:
        file.write(data)
        file.flush()
        try:
            Source("a", Path(file.name)).read(AGREED)
        except FedciError:
            return False
    return True


TARGETS = {"messages": messages, "study": study, "csv": csv}
