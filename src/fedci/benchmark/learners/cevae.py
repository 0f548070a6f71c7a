"""CEVAE by pyro.contrib.cevae: the package's networks and optimiser, 300 epochs, standardised normal outcome.

Not tuned (3 × 200 hidden units, 20 latent, learning rate 1e-3 falling tenfold, batches of 100: the package's defaults).
No intervals: its draws are of the latent confounder, not of the effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedci.benchmark.learners.estimate import Estimate, Predictor

EPOCHS, DRAWS, BATCH = 300, 100, 100


def cevae(x: np.ndarray, w: np.ndarray, y: np.ndarray, seed: int) -> Predictor:
    """Fitted on standardised outcomes; the package whitens the covariates itself."""
    import torch
    from pyro.contrib.cevae import CEVAE

    centre, scale = y.mean(), y.std() or 1.0
    rows = [torch.as_tensor(a, dtype=torch.float32) for a in (x, w, (y - centre) / scale)]
    with _alone(seed):
        network = CEVAE(feature_dim=x.shape[1], outcome_dist="normal", num_samples=DRAWS)
        _names_apart(network)
        network.fit(*rows, num_epochs=EPOCHS, batch_size=BATCH, log_every=0)

    def predict(new: np.ndarray) -> Estimate:
        with _alone(seed):
            means = [_outcomes(network, part) for part in torch.as_tensor(new, dtype=torch.float32).split(BATCH)]
        mu0, mu1 = (centre + scale * np.concatenate(arm) for arm in zip(*means, strict=True))
        return Estimate(cate=mu1 - mu0, mu0=mu0, mu1=mu1)

    return predict


def _names_apart(network: Any) -> None:
    """One root for model and guide, as Pyro asks for, so that their parameters have different names.

    Without it (pyro 1.9.2) `t_nn`, `y0_nn` and `y1_nn` of both share names, and the model's stay at their start.
    """
    from pyro.nn import PyroModule

    root = PyroModule("cevae")
    root.model, root.guide = network.model, network.guide


def _outcomes(network: Any, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """E[y | x, do(t)] for t = 0, 1, as `CEVAE.ite` computes them before it takes their difference."""
    import pyro
    import torch
    from pyro import poutine

    x = network.whiten(x)
    with torch.no_grad(), pyro.plate("num_particles", network.num_samples, dim=-2):
        with poutine.trace() as traced, poutine.block(hide=["y", "t"]):
            network.guide(x)
        arms = []
        for treatment in (torch.zeros(()), torch.ones(())):
            with poutine.do(data={"t": treatment}):
                arms.append(poutine.replay(network.model.y_mean, traced.trace)(x).mean(0))
    return tuple(arm.double().numpy() for arm in arms)


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """Torch seeded, on one thread, with an empty parameter store; all three given back as they were.

    The store is global: without its own, a second network would be trained on the first one's parameters.
    """
    import pyro
    import torch

    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]), pyro.get_param_store().scope():
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
