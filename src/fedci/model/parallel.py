"""Draws side by side: on a processor each of its cores takes a part of them; a GPU takes all at once.

XLA keeps one program's small steps on one core, and releases Python's lock while it computes, so threads do. A draw's
numbers do not depend on which part it is in, and parts have one size where they can: the draws of a round and the many
draws of the effects then share one program, which takes longer to compile than to run.

Within a thread draws go one after the other. Side by side they would be slower (their covariances leave the cache:
twice, at 256 rows) and could wait for ever: XLA shares a batch of factorisations out among its threads, and where two
such steps of a program do so at once on two cores, each waits in a thread that the other's parts need.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from fedci.model.rows import on_device

PART = 4
"""Draws in a part, where there are enough of them for all cores."""
ROUND = 8
"""Draws of a round, as presets have it: at a small site, whose draws stay in one thread, all in one part."""


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_processor() -> bool:
    return jax.default_backend() == "cpu"


def each(compute: Callable[[Any], Any], draws: Any, at_once: int | None = None) -> Any:
    """compute(draw) of each draw, within a program: one after the other on a processor, `at_once` (all) on a GPU."""
    count = jax.tree.leaves(draws)[0].shape[0]
    return jax.lax.map(compute, draws, batch_size=None if on_processor() else at_once or count)


def over_draws(compute: Callable[[Any], Any], draws: Any, small: bool = False) -> Any:
    """compute(draws), the leading axis of `draws` and of what comes back shared out among the cores; of a small site in
    one thread."""
    count, workers = jax.tree.leaves(draws)[0].shape[0], 1 if small else cores()
    size = part_size(count, workers, ROUND if small else PART) if on_processor() else count
    if size == count:
        return compute(draws)
    whole = jax.tree.map(np.asarray, draws)  # cut and joined by NumPy: JAX would compile each cut
    shared = [jax.tree.map(lambda leaf, at=at: on_device(leaf[at:at + size]), whole) for at in range(0, count, size)]
    if min(workers, len(shared)) == 1:  # a thread to wait for costs more than a small part
        computed = [jax.device_get(compute(part)) for part in shared]
    else:
        with ThreadPoolExecutor(min(workers, len(shared))) as pool:
            computed = list(pool.map(lambda part: jax.device_get(compute(part)), shared))
    return jax.tree.map(lambda *leaves: on_device(np.concatenate(leaves)), *computed)


def of_one(compute: Callable[[Any], Any], draw: Any, small: bool = False) -> Any:
    """compute(draw) of a single draw, by the program of a round's: it takes less than a compilation."""
    if not on_processor():
        return compute(draw)
    size = ROUND if small else part_size(ROUND, cores())
    every = jax.tree.map(lambda leaf: on_device(np.repeat(np.asarray(leaf), size, 0)), draw)
    return jax.tree.map(lambda leaf: on_device(np.asarray(leaf)[:1]), compute(every))


def part_size(count: int, workers: int, most: int = PART) -> int:
    """The most draws up to `most` that divide `count` and leave no worker without a part, but two at least: a loop of
    one is another program, with other bits. All, where none divides."""
    most = min(most, max(count // workers, 2))
    return next((size for size in range(most, 1, -1) if count % size == 0), count)
