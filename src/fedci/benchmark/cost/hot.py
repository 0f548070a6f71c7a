"""`python -m fedci.benchmark.cost.hot --out DIR`: how near the hot kernels of a large site come to one core's limit.

Processor seconds of one thread, the least of some tries, so that other work on the machine does not count. The limit is
a product of two 1024 × 1024 matrices in float64 by the same library. Operations are those of the matrix products alone
(exponentials, square roots and sums are not counted), for n rows, f columns of φ, M inducing inputs, d covariates:

    first half    n (2(f+1)² + 2M² + 2dM)               φ, and Σ (φ, y)(φ, y)ᵀ
    second half   n (2(f+1)f + 6M² + 4dM)               φ again, the gradient in φ, and back through ψ
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedci.benchmark.cost.scale import keep, show

ROWS, D, DRAWS, SIDE, TRIES = 10_000, 20, 4, 1024, 5


def least(compute: Callable[[], Any]) -> float:
    """Processor seconds."""
    import jax

    seconds = []
    for _ in range(TRIES + 1):
        start = time.process_time()
        jax.block_until_ready(compute())
        seconds.append(time.process_time() - start)
    return min(seconds[1:])


def measure() -> list[dict[str, Any]]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    from fedci.model.shared import evidence, sparse
    from fedci.model.shared.inducing import cut
    from fedci.model.shared.shared_family import SharedFamily
    from fedci.study.options import preset

    rng = np.random.default_rng(0)
    model = SharedFamily(options=preset("default").model, covariates=D, described=D, sites=10)
    x, w, y = rng.standard_normal((ROWS, D)), (rng.random(ROWS) < 0.5).astype(float), rng.standard_normal(ROWS)
    site = cut(x, w, y, np.zeros(4), 0, model.kernel, model.options.inducing)
    thetas = model.prior[0] + 0.1 * rng.standard_normal((DRAWS, model.size))
    statistics, sums = evidence.first_half(model, thetas, site, 1e-10)
    f, m = sparse.width_of(model, site), site.inducing.shape[0]
    square = jnp.asarray(rng.standard_normal((SIDE, SIDE)))
    positive = square @ square.T + SIDE * jnp.eye(SIDE)
    small = jnp.asarray(positive[:200, :200])
    product, factor = jax.jit(jnp.matmul), jax.jit(jnp.linalg.cholesky)
    tries = (
        ("matrix product 1024", 2.0 * SIDE**3, 1, lambda: product(square, square)),
        ("Cholesky 1024", SIDE**3 / 3.0, 1, lambda: factor(positive)),
        ("Cholesky 200", 200**3 / 3.0, 1, lambda: factor(small)),
        ("first half of a round", ROWS * (2.0 * (f + 1) ** 2 + 2.0 * m**2 + 2.0 * D * m), DRAWS,
         lambda: evidence.first_half(model, thetas, site, 1e-10)),
        ("second half of a round", ROWS * (2.0 * (f + 1) * f + 6.0 * m**2 + 4.0 * D * m), DRAWS,
         lambda: evidence.second_half(model, thetas, site, 1e-10, statistics, sums)),
    )
    rows, limit = [], 0.0
    for name, operations, times, compute in tries:
        seconds = least(compute) / times
        limit = limit or operations / seconds
        rows.append({"kernel": name, "ms": 1e3 * seconds, "GFLOP/s": operations / seconds / 1e9,
                     "of the limit": operations / seconds / limit})
    return rows


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m fedci.benchmark.cost.hot", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="a folder; the table is added to hot.csv there")
    given = parser.parse_args(arguments)
    rows = measure()
    for number, row in enumerate(rows):
        show(row, not number)
    if given.out:
        keep(rows, given.out / "hot.csv")


if __name__ == "__main__":
    main(sys.argv[1:])
