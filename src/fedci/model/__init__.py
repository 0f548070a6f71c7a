"""Both models as pure functions of Θ. One module per noun: kernels, covariance, likelihood, …

Everything is float64: a covariance of a few hundred rows loses its positive definiteness in float32.
JAX decides this once per process, so it is switched on here, before the first array exists.
"""

from fedci.model import programs

programs.one_thread_each()

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
programs.keep()
