"""Simulation-based calibration: on data drawn from the model itself, the truth is anywhere in the posterior alike.

The posterior's distribution function at the truth must be uniform. Of the model `paper`, Θ's point estimates are held
at the values that made the data (hyper_sd tiny, zero mean), so that q(Φ), q(Σ), q(g) and the predictive law are what is
judged; of the model `shared`, all of θ is drawn from its prior.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, log_expit, ndtr

from fedci import FedCI, Source, Study
from fedci.model.families import model_of
from fedci.model.kernels import build, cross
from fedci.model.likelihood import BINARY, COUNT, Told
from fedci.model.shared import latent
from fedci.model.shared.shared import noise_sd, own_root
from fedci.study.options import preset
from fedci.table.moments import describe

D, SITES, ROWS, RUNS = 2, 3, 40, 200
PHI, SIGMA, DOF = np.array([[0.1, 0.05], [0.05, 0.1]]), 0.05 * np.eye(2), 10.0
MODEL = {"kernel": "matern52", "source_kernel": "matern52", "mean": {"kind": "zero"}, "standardise": False,
         "phi": {"scale": PHI.tolist(), "dof": DOF, "start_dof": 20.0},
         "sigma": {"scale": SIGMA.tolist(), "dof": DOF, "start_dof": 20.0, "learn_correlation": False},
         "weight_sd": "none", "hyper_sd": 1e-3}
ALPHA = 1e-3
"""Error rate of each uniformity test; three per case."""


def covariance(kernel: str, x: np.ndarray) -> np.ndarray:
    """The kernel at its starting length-scale √dim."""
    k, x = build(kernel), jnp.asarray(x)
    return np.asarray(cross(k, k.init(x.shape[1]), x, x)) + 1e-9 * np.eye(len(x))


def simulate(rng: np.random.Generator, inter_dependency: bool):
    """Frames of the sites, and the true expected effects of their people and of one new person each."""
    root_phi = np.linalg.cholesky(stats.wishart.rvs(DOF, PHI, random_state=rng))
    root_sigma = np.linalg.cholesky(stats.wishart.rvs(DOF, SIGMA, random_state=rng))
    xs = [rng.normal(size=(ROWS + 1, D)) + 0.5 * rng.normal(size=D) for _ in range(SITES)]
    moments = np.stack([describe(x[:ROWS]).values.T.ravel() for x in xs])
    g = np.linalg.cholesky(covariance("matern52", moments)) @ rng.normal(size=(SITES, 2)) * inter_dependency
    frames, effects = [], []
    for x, level in zip(xs, g, strict=True):
        f = np.linalg.cholesky(covariance("matern52", x)) @ rng.normal(size=(ROWS + 1, 2))
        expected = (f + level) @ root_phi.T
        both = expected + rng.normal(size=expected.shape) @ root_sigma.T
        w = rng.integers(0, 2, ROWS)
        frames.append(pd.DataFrame(x, columns=["a", "b"]).iloc[:ROWS].assign(w=w, y=both[np.arange(ROWS), w]))
        effects.append((expected[:, 1] - expected[:, 0], x[ROWS:]))
    return frames, effects


def level_of(effect, truth) -> float:
    """The posterior's distribution function at the truth."""
    return float(np.mean(ndtr((truth - np.squeeze(effect.means)) / np.sqrt(np.squeeze(effect.variances)))))


def check_uniform(title: str, levels: list, capsys) -> None:
    """`levels` [runs, 3] of the three posteriors; what their 95% intervals cover is printed."""
    by_name = dict(zip(("ATE", "a site's ATE", "a new person's effect"), np.transpose(levels), strict=True))
    covered = {name: np.mean((seen > 0.025) & (seen < 0.975)) for name, seen in by_name.items()}
    with capsys.disabled():
        print(f"\n{title}, {len(levels)} runs, covered:", *(f"{name} {share:.3f}" for name, share in covered.items()))
    for name, seen in by_name.items():
        assert stats.kstest(seen, "uniform").pvalue > ALPHA, (name, np.histogram(seen, 8, (0, 1))[0])
        assert covered[name] > 0.95 - 4 * np.sqrt(0.95 * 0.05 / len(seen)), (name, covered[name])


def levels_of(result, effects, rows: int) -> list[float]:
    """Where the truths lie; the last of the first site's people is the new one."""
    own, (truth, new) = [site[:rows] for site, _ in effects], effects[0]
    return [level_of(result.ate(), np.mean(own)), level_of(result.ate("s0"), np.mean(own[0])),
            level_of(result.effect_posterior(new, "s0"), truth[rows])]


@pytest.mark.slow
@pytest.mark.parametrize("inter_dependency", [False, True])
def test_posteriors_are_calibrated(inter_dependency, capsys):
    study = Study(treatment="w", outcome="y", covariates=["a", "b"], policy="simulation", preset="classic",
                  options={"model": MODEL | {"inter_dependency": inter_dependency}, "optimiser": {"draws": 16}})
    levels = []
    for run in range(RUNS):
        frames, effects = simulate(np.random.default_rng((run, 77)), inter_dependency)
        result = FedCI(study, seed=run).fit([Source(f"s{i}", frame) for i, frame in enumerate(frames)])
        levels.append(levels_of(result, effects, ROWS))
    check_uniform(f"paper, inter-dependency {inter_dependency}", levels, capsys)


# --- the model `shared`

SHARED_ROWS, SHARED_RUNS, COLUMNS = 50, 100, [f"x{c}" for c in range(6)]
SHARED = model_of(preset("default").model, len(COLUMNS), len(COLUMNS), SITES)


@jax.jit
def outcome_law(vector, x):
    """(z of each arm [2, n, q], k [n, n], Φ^{1/2}, noise sds) of θ."""
    theta = SHARED.unravel(vector)
    z = jnp.stack([SHARED.layout.rows(theta, x, jnp.tile(arm, (len(x), 1))) for arm in jnp.eye(2)])
    return z, cross(SHARED.kernel, theta["kernel"], x, x), own_root(theta), noise_sd(theta)


def draw_theta(rng: np.random.Generator) -> np.ndarray:
    (mean, sd), heavy = SHARED.prior, SHARED.heavy_tailed
    normals = rng.standard_normal(mean.size)
    return mean + sd * np.where(heavy, rng.standard_t(SHARED.options.tails, mean.size), normals)


def simulate_shared(rng: np.random.Generator):
    """θ, β̃, f^s and noise from their priors, until the outcome's spread is near the 1 that those are for. To choose by
    what is observed changes no posterior; standardising, which the fit does, then changes little."""
    n = SHARED_ROWS + 1
    while True:
        x, w = rng.normal(size=(SITES, n, len(COLUMNS))), rng.integers(0, 2, (SITES, n))
        z, k, root, noise = map(np.asarray, outcome_law(draw_theta(rng), x.reshape(SITES * n, -1)))
        mu = (z @ rng.standard_normal(z.shape[2])).T.reshape(SITES, n, 2)
        for s in range(SITES):
            own = k[s * n:(s + 1) * n, s * n:(s + 1) * n] + 1e-8 * np.eye(n)
            mu[s] += np.linalg.cholesky(own) @ rng.standard_normal((n, 2)) @ root.T
        y = np.take_along_axis(mu, w[..., None], 2)[..., 0] + noise[w] * rng.standard_normal(w.shape)
        if 0.8 < y[:, :-1].std() < 1.25:
            break
    frames = [pd.DataFrame(x[s, :-1], columns=COLUMNS).assign(w=w[s, :-1], y=y[s, :-1]) for s in range(SITES)]
    return frames, [(mu[s, :, 1] - mu[s, :, 0], x[s, -1:]) for s in range(SITES)]


@pytest.mark.slow
def test_posteriors_of_the_default_are_calibrated(capsys):
    study = Study(treatment="w", outcome="y", covariates=COLUMNS, policy="simulation")
    levels = []
    for run in range(SHARED_RUNS):
        frames, effects = simulate_shared(np.random.default_rng((run, 78)))
        result = FedCI(study, seed=run).fit([Source(f"s{i}", frame) for i, frame in enumerate(frames)])
        levels.append(levels_of(result, effects, SHARED_ROWS))
    check_uniform("shared", levels, capsys)


# --- outcomes of 0 and 1


def rare_events(rng: np.random.Generator):
    """Three sites of 40 people, about one in six with an event: where the bound alone is most overconfident."""
    for _ in range(SITES):
        x, w = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
        risk = 1.0 / (1.0 + np.exp(-(1.2 * x[:, 0] + 0.8 * w - 2.4)))
        yield pd.DataFrame(x, columns=["a", "b"]).assign(w=w, y=(rng.uniform(size=40) < risk).astype(int))


def log_odds_by_gibbs(prior: np.ndarray, seen: np.ndarray, y: np.ndarray, steps: int) -> np.ndarray:
    """[steps, 2n] draws of η ~ N(0, prior) given y at the places `seen`: Pólya-Gamma variables, each a sum of a hundred
    exponentials and the mean of the rest, and η given them by Matheron's rule."""
    rng, n = np.random.default_rng(0), len(y)
    root, observed = np.linalg.cholesky(prior + 1e-8 * np.eye(len(prior))), prior[np.ix_(seen, seen)]
    squares, eta, kept = (np.arange(2000) + 0.5) ** 2, np.zeros(len(prior)), []
    for _ in range(steps):
        apart = squares[:100] + (eta[seen, None] / (2.0 * np.pi)) ** 2
        omega = (np.sum(rng.exponential(size=(n, 100)) / apart, 1) + np.sum(1.0 / squares[100:])) / (2.0 * np.pi**2)
        drawn = root @ rng.standard_normal(len(prior))
        missed = (y - 0.5) / omega - drawn[seen] - rng.standard_normal(n) / np.sqrt(omega)
        eta = drawn + prior[:, seen] @ np.linalg.solve(observed + np.diag(1.0 / omega), missed)
        kept.append(eta)
    return np.stack(kept)


@pytest.mark.slow
def test_risks_given_theta_are_those_of_gibbs_sampling(capsys):
    """The whole study with θ a point, and 2048 draws of (β̃, f^s), beside 6000 steps of Gibbs sampling at that θ: the
    average risk difference has the same mean to a fifth of its sd, and its sd is at least 0.93 of the true one (each is
    known to about 2 %); so are the risks themselves."""
    frames = list(rare_events(np.random.default_rng(4)))
    options = {"prediction": {"draws": 2048}, "model": {"posterior": "point"}}
    plan = Study(treatment="w", outcome={"name": "y", "type": "binary"}, covariates=["a", "b"], policy="simulation",
                 diagnostics={"enabled": False}, options=options)
    result = FedCI(plan).fit([Source(f"s{i}", frame) for i, frame in enumerate(frames)])
    model, vector = result.outcome.layout.model, result.outcome.fit.theta
    theta = model.unravel(jnp.asarray(vector[:model.size]))
    tables = [result.people[f"s{i}"] for i in range(SITES)]
    x = jnp.asarray(np.concatenate([one.ready.units.covariates(one.table.x) for one in tables]))
    w, y = (np.concatenate([getattr(one.table, name) for one in tables]) for name in ("w", "y"))
    n, owner = len(y), np.repeat(range(SITES), 40)
    z = np.asarray(model.layout.arms(theta, x))
    z, root = np.concatenate([z[:, 0], z[:, 1]]), np.asarray(own_root(theta))
    own = np.asarray(cross(model.kernel, theta["kernel"], x, x)) * (owner[:, None] == owner)
    eta = log_odds_by_gibbs(z @ z.T + np.kron(root @ root.T, own), np.arange(n) + n * w.astype(int), y, 6000)[200:]
    risks = 1.0 / (1.0 + np.exp(-eta.reshape(len(eta), 2, n)))
    true = {"untreated": risks[:, 0].mean(1), "treated": risks[:, 1].mean(1)}
    true["difference"] = true["treated"] - true["untreated"]
    found = result.risks()
    for name, draws in true.items():
        effect = found.difference if name == "difference" else getattr(found, f"of_{name}")
        with capsys.disabled():
            print(f"\n{name}: sd {effect.sd:.4f} of {draws.std():.4f}, mean {effect.mean:.4f} and {draws.mean():.4f}")
        assert abs(effect.mean - draws.mean()) < 0.2 * draws.std()
        assert 0.93 < effect.sd / draws.std() < 1.07


def elliptical(log_likelihood, root: np.ndarray, steps: int, seed: int) -> np.ndarray:
    """[steps, n] from N(0, root rootᵀ) times the likelihood: slices along ellipses, each accepted in the end."""
    rng = np.random.default_rng(seed)
    eta, found = np.zeros(len(root)), np.empty((steps, len(root)))
    now = log_likelihood(eta)
    for step in range(steps):
        other, level = root @ rng.standard_normal(len(root)), now + np.log(rng.random())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        low, high = angle - 2.0 * np.pi, angle
        while True:
            tried = eta * np.cos(angle) + other * np.sin(angle)
            if (value := log_likelihood(tried)) > level:
                break
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = rng.uniform(low, high)
        eta, now, found[step] = tried, value, tried
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["count", "survival"])
def test_the_nearest_gaussian_has_the_spread_of_long_sampling(kind, capsys):
    """Of the average of η over 40 rows and of its contrast between halves, with the prior's covariance given: 60,000
    steps, whose own error of an sd is about 2%."""
    rng = np.random.default_rng(8)
    n = 40
    x = np.sort(rng.normal(size=n))
    k = 1.5 * np.exp(-0.5 * (x[:, None] - x[None]) ** 2) + 1.0 + 1e-8 * np.eye(n)
    root = np.linalg.cholesky(k)
    truth = 0.7 * root @ rng.standard_normal(n) - 0.5
    if kind == "count":
        likelihood, theta, size = COUNT, {"dispersion": jnp.log(2.0)}, 2.0
        more = np.log(rng.uniform(0.5, 2.0, n))
        y = rng.negative_binomial(size, size / (size + np.exp(truth + more))).astype(float)

        def log_likelihood(eta):
            psi = eta + more - np.log(size)
            return y @ log_expit(psi) + size * log_expit(-psi).sum()
    else:
        likelihood, theta = BINARY, {}
        y = (rng.random(n) < expit(truth)).astype(float)
        more = np.where(y == 1, 1.0, rng.choice([0.3, 1.0], n))

        def log_likelihood(eta):
            return more @ log_expit((2.0 * y - 1.0) * eta)

    told, ones, none = Told(jnp.asarray(y), 0.0, jnp.asarray(more)), jnp.ones(n), jnp.zeros((n, 1))
    at = latent.LogOdds(*likelihood.begin(told, jnp.zeros(n), jnp.diag(jnp.asarray(k))))
    for _ in range(30):
        own = likelihood.nearest(told, theta, ones, *at)
        at = latent.given_rows(jnp.asarray(k), none, jnp.zeros(1), jnp.zeros((1, 1)), own)
    cov = k - k @ np.linalg.solve(k + np.diag(1.0 / np.asarray(own.weight)), k)
    sampled = elliptical(log_likelihood, root, 60_000, 1)[2_000:]
    for weights in (np.full(n, 1.0 / n), np.where(np.arange(n) < n // 2, -2.0, 2.0) / n):
        ratio = np.sqrt(weights @ cov @ weights) / (sampled @ weights).std()
        away = (weights @ np.asarray(at.mean) - (sampled @ weights).mean()) / (sampled @ weights).std()
        with capsys.disabled():
            print(f"{kind}: sd {ratio:.3f} of the sampled one, mean {away:+.3f} sds away")
        assert 0.9 < ratio < 1.1
        assert abs(away) < 0.15
