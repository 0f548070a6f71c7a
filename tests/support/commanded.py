"""Commands and what they told; a study small enough to be run by them."""

import pytest

from fedci.cli import commands
from tests_support import small

SHORT = {"optimiser": {"rounds": 8}, "prediction": {"draws": 16}}
FAST = small(8)
NEW = 1300
"""New people: three chunks of the prediction's own, the last not full."""


def told(capsys, *arguments):
    with pytest.raises(SystemExit) as left:
        commands.main([str(word) for word in arguments])
    said = capsys.readouterr()
    return left.value.code, said.out, said.err
