"""The paper's model as pure functions of Θ. One module per noun: kernels, means, wishart, covariance, …

Everything is float64: a covariance of a few hundred rows loses its positive definiteness in float32.
JAX decides this once per process, so it is switched on here, before the first array exists.

Matrices are small and many: work is shared out by draws (`model.parallel`), and each factorisation stays on one core.
BLAS' own threads would wait for each other, most of all on a machine with other work. Where the variable is set, or
SciPy was loaded before, that stands.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
