"""The engine in one process counts what it carries."""

import numpy as np

from fedci.protocol.codec import encode
from fedci.protocol.messages import Evaluate


def test_messages_stay_small():
    """A round of the default model is a few kilobytes each way, whatever the rows."""
    theta, roots = np.zeros(66), np.zeros((8, 2, 2))
    assert len(encode(Evaluate("r", 1, "s", theta, roots, roots))) < 3000
