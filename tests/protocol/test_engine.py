"""The engine in one process counts what it carries."""

import numpy as np

from fedci.protocol.codec import encode
from fedci.protocol.messages import Step


def test_messages_stay_small():
    """A round of the model `paper` is a few kilobytes each way, whatever the rows."""
    gradient, roots = np.zeros(66), np.zeros((8, 2, 2))
    told = {"objective": np.zeros(()), "gradient": gradient, "phi_roots": roots, "sigma_roots": roots}
    assert len(encode(Step("r", 1, "s", "Evaluate", told))) < 3000
