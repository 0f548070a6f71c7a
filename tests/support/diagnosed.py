"""People, sums and a whole record, for the tests of the diagnostics: nothing here fits a model."""

import numpy as np
from scipy.stats import norm

from fedci.diagnostics import balance, fit, heterogeneity, plausibility, propensity, refuters, sensitivity
from fedci.diagnostics.findings import Diagnostics
from support.asked import came_to


def rows(n: int, seed: int = 0, p: int = 3):
    """(x with missing values, w, propensity) of n people."""
    rng = np.random.default_rng((seed, 1))
    x = rng.normal(size=(n, p))
    e = 1 / (1 + np.exp(-(0.7 * x[:, 0] - 0.3)))
    w = (rng.uniform(size=n) < e).astype(float)
    x[rng.uniform(size=x.shape) < 0.05] = np.nan
    return x, w, e


# --- propensity


def fitted(x, w, site, ridge=propensity.RIDGE, least=0.0):
    """(the model from the sum of the sites' parts, the slopes that were asked about)."""
    asked = []

    def told(at):
        asked.append(at)
        parts = [propensity.sums(x[site == s], w[site == s], at, ridge) for s in np.unique(site)]
        return propensity.Sums(*(sum(part) for part in zip(*parts, strict=True)))

    return came_to(propensity.fit(x.shape[1], least, ridge), told), asked


def propensities(x, w, site, slopes):
    """[n] each at its own site."""
    e = np.zeros(len(w))
    for s in np.unique(site):
        e[site == s] = propensity.scores(x[site == s], w[site == s], slopes)
    return e


# --- balance


def arm_sums(x, w, omega):
    """What a site that hides nothing tells."""
    size, first, second = balance.arm_sums(x, w, omega)
    return {"size": size, "first": first, "second": second, "told": np.ones((len(omega), x.shape[1]))}


# --- heterogeneity


def site_sums(seed=6, effects=(1.0, 1.1, 0.9)):
    rng = np.random.default_rng(seed)
    psi = {f"s{k}": rng.normal(effect, 2.0, 80 + 20 * k) for k, effect in enumerate(effects)}
    return psi, {name: heterogeneity.Sums(len(v), v.sum(), v @ v) for name, v in psi.items()}


def model_effects(sums, shrink):
    middle = np.mean([one.mean for one in sums.values()])
    return {name: heterogeneity.interval(middle + (1 - shrink) * (one.mean - middle), 0.1)
            for name, one in sums.items()}


# --- fit


def predictions(n=500, seed=9, slope=1.0, noise=1.0):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=n)
    w = (rng.uniform(size=n) < 0.5).astype(float)
    return slope * mean + rng.normal(0, noise, n), w, mean, np.ones(n)


def site_fit(y, w, mean, sd):
    """(residuals, the site's part) where nothing is hidden."""
    residuals, bins, line = fit.site_fit_sums(y, w, mean, sd, fit.calibration_edges(0.0, 1.0))
    places = fit.place_counts(norm.cdf((y - mean) / sd))
    return residuals, fit.site_part(places, np.zeros(fit.PLACES, bool), bins, line)


def summed_up(ended, people):
    """The section of these sites' people."""
    found = {name: site_fit(*one) for name, one in people.items()}
    everyone = fit.Pooled(*(sum(part) for part in zip(*(part for _, part in found.values()), strict=True)))
    return fit.summary(STEPS, 50, ended, {name: residuals for name, (residuals, _) in found.items()}, everyone)


STEPS = (fit.Step(round=1, objective=-2.0, gradient_norm=1.0, seconds=0.1),)


# --- the record


def record() -> Diagnostics:
    _, sums = site_sums()
    x, w, e = rows(200)
    arms = balance.arm_moments(arm_sums(x, w, balance.weights(w, e, 0.5)))
    return Diagnostics(
        balance=balance.summary(arms, {"a": arms}, ("u", "v", "x")),
        fit=summed_up("converged", {"a": predictions()}),
        plausibility=plausibility.summary(2.0, 0.4, (1.0, 0.5), (plausibility.Average(
            over=plausibility.EVERYBODY, mean=1.0, low=0.6, high=1.4),), 0.5),
        heterogeneity=heterogeneity.summary(sums, model_effects(sums, 0.3)),
        sensitivity=sensitivity.summary(1.0, 0.2, 0.6, 1.4, 2.0, 100, 0.3, (1.0, 0.5), ()),
        refuters=(refuters.refuter("placebo", 0.1, 0.1, -0.1, 0.3, "converged", 1.0, 0.1),), notes=("so it is",))
