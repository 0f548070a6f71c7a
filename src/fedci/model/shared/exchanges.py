"""What a fit of the model `shared` asks: statistics out and summed, their cotangents back, one gradient per draw of θ.

Generators: they yield what is asked, and are sent the sums over all sites; nothing here knows who answers.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from fedci.errors import NumericalError
from fedci.model.family import NO_ANCHOR, Ask, Sums, Theta
from fedci.model.programs import compiled
from fedci.model.rows import BetaLaw, on_device
from fedci.model.shared import basis, chances, evidence, sizes
from fedci.model.shared.evidence import Statistics
from fedci.model.shared.shared import SharedModel
from fedci.study.options import SharedOptions

START_SD = 0.1
"""Of q at the start: narrow, so that the first rounds find the place and the later ones the width."""
POINT_SD = 1e-6
"""Of q where it is a point; it stays."""
BETAS = SharedOptions.draws_per_theta
LAST_STREAM = 10**6
"""Of normals that no round has had."""
STATISTICS, PULL_BACK, EFFECTS, RISKS = "AskStatistics", "PullBack", "AskSharedEffects", "AskRisks"
ARMS = "AskArms"
SURVIVAL, RATES = "AskSurvival", "AskRates"

FEW_PEOPLE = 100
"""At all sites together: of fewer q knows the sizes badly, and they are drawn from their exact law (`sizes`), but where
the sums are those of a bound of the likelihood: it is one at its own θ alone."""
ANCHOR, MATCHED = "anchor_", "anchor_matched"
"""How the names of an anchor's arrays begin; and that with it the nearest Gaussian is asked for, not the bound."""


def start(model: SharedModel, people: int, rows: float = 0.0) -> Generator[Ask, Sums, np.ndarray]:
    """q = [means, log sds]: directions from a federated ridge regression of each arm, the rest near its prior."""
    total = yield Ask(STATISTICS, {"thetas": model.ravel(model.ridge)[None], "few": np.array(float(rows))})
    return beginning(model, np.asarray(evidence.collapse(_statistics(total)).mean)[0],
                     np.asarray(total["gram"])[0], people)


def beginning(model: SharedModel, beta: np.ndarray, gram: np.ndarray, people: int) -> np.ndarray:
    """q from β̃'s posterior mean and T at `model.ridge`: there A = 0, the hinges are constant, and its lines are the
    ridge estimate."""
    theta = model.starts | {"directions": _ridge_directions(model, beta)}
    if model.options.between_arms:
        root = np.asarray(_root_of_lines(model, model.ridge))
        theta |= {"between_arms": chances.slopes(model, gram, root, people)}
    vector = model.ravel(theta)
    sd = START_SD if model.options.posterior == "gaussian" else POINT_SD
    return np.concatenate([vector, np.log(np.where(model.held, POINT_SD, sd))])


def _ridge_directions(model: SharedModel, beta: np.ndarray) -> np.ndarray:
    """[d, K]: a of both arms' coefficients (and, from the third, of their difference and its like), each of length
    √d. Of more arms those of the reference and the mean of the others'."""
    coefficients = _slopes(model, model.ridge, beta)
    if model.arms > 2:
        coefficients = np.column_stack([coefficients[:, 0], coefficients[:, 1:].mean(1)])
    two = coefficients / np.maximum(np.linalg.norm(coefficients, axis=0), 1e-12)
    more = np.random.default_rng(0).standard_normal((model.covariates, model.options.directions))
    columns = np.column_stack([two, two[:, 1] - two[:, 0], more / np.linalg.norm(more, axis=0)])
    if model.options.directions == 1:
        columns = (two.sum(1) / np.maximum(np.linalg.norm(two.sum(1)), 1e-12))[:, None]
    return columns[:, :model.options.directions] * np.sqrt(model.covariates) / basis.DIRECTION_SD


def _slopes(model: SharedModel, theta: Theta, beta: np.ndarray) -> np.ndarray:
    """[d, A] coefficients of x in each arm, from β̃."""
    lines = model.layout[basis.LINES]
    block = beta[model.layout.coefficients[lines.name]].reshape(model.arms, lines.width)
    return (np.asarray(_root_of_lines(model, theta)) @ block).T


@compiled(static="model")
def _root_of_lines(model: SharedModel, theta: Theta) -> Float[Array, "A A"]:
    return model.layout[basis.LINES].root(theta)


@compiled(static="model")
def sizes_of_columns(model: SharedModel, thetas: Float[Array, "L p"]) -> Float[Array, "L q"]:
    """Of z, and at least 1."""
    return jax.vmap(lambda vector: jnp.maximum(model.layout.sizes(model.unravel(vector)), 1.0))(thetas)


def _statistics(total: Sums) -> Statistics:
    return Statistics(*(on_device(total[name]) for name in Statistics._fields))


def evaluate(model: SharedModel, q: np.ndarray, people: int, normals: np.ndarray, rows: float = 0.0,
             anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, tuple[float, np.ndarray, np.ndarray]]:
    """(L, ∂L/∂q, the anchor that its sums make): two exchanges with every site. (−inf, 0, none) where a site failed.
    `rows`: of so many of a site's."""
    failed = -np.inf, np.zeros_like(q), NO_ANCHOR
    thetas = evidence.draw(q, normals)
    if not np.isfinite(thetas).all():
        return failed
    asked = {"thetas": thetas, "few": np.array(float(rows))} | anchored(model, anchor)
    total = yield Ask(STATISTICS, asked)
    if total["failed"] > 0:
        return failed
    values, back = _log_evidence(*(_frozen(total[name]) for name in Statistics._fields), people)
    if not np.isfinite(values).all():
        return failed
    pulled = yield Ask(PULL_BACK, asked | back)
    if pulled["failed"] > 0:
        return failed
    objective, gradient = evidence.objective(model, q, normals, values, pulled["gradient"])
    fine = np.isfinite(objective) and np.isfinite(gradient).all()
    return (objective, gradient, anchor_of(model, thetas, total)) if fine else failed


Frozen = tuple[tuple[int, ...], bytes]
"""An array's shape and numbers."""


def _frozen(part: np.ndarray) -> Frozen:
    return part.shape, np.ascontiguousarray(part, float).tobytes()


@lru_cache(maxsize=2)
def _log_evidence(gram: Frozen, cross: Frozen, square: Frozen, log_det: Frozen, people: int
                  ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Who follows the course asks for it more than once a round, and all parties in one process alike: once is
    enough."""
    every = gram, cross, square, log_det
    total = Statistics(*(on_device(np.frombuffer(told).reshape(shape)) for shape, told in every))
    values, cotangents = evidence.log_evidence(total, float(people))
    return np.asarray(values), {name: np.asarray(part) for name, part in cotangents._asdict().items()}


def anchor_of(model: SharedModel, thetas: np.ndarray, total: Sums) -> np.ndarray:
    """`rows.Anchor` as one vector, for the optimiser's state; none where the likelihood needs no bound."""
    if not model.is_bounded:
        return NO_ANCHOR
    return np.concatenate([np.ravel(part) for part in (thetas, total["gram"], total["cross"])])


def anchored(model: SharedModel, anchor: np.ndarray) -> dict[str, np.ndarray]:
    """The same by its names, as it is asked with."""
    if not anchor.size:
        return {}
    q = model.columns
    widths = {f"{ANCHOR}theta": model.size, f"{ANCHOR}gram": q * (q + 1) // 2, f"{ANCHOR}cross": q}
    count = anchor.size // sum(widths.values())
    parts = np.split(anchor, count * np.cumsum(list(widths.values()))[:-1])
    return {name: part.reshape(count, -1) for name, part in zip(widths, parts, strict=True)}


def gather(model: SharedModel, q: np.ndarray, people: int, draws: int, seed: int, correlations: np.ndarray,
           anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, tuple[dict[str, np.ndarray], BetaLaw]]:
    """(named draws, β's law): θ from q, of few people its sizes given the rest, then β given θ and all sites' sums;
    with them each site sums its people's effects."""
    thetas, total = yield from _last_statistics(model, q, draws, seed, anchor)
    if people < FEW_PEOPLE and not model.is_bounded and model.options.posterior == "gaussian":
        thetas, gram, cross = sizes.drawn(model, thetas, np.asarray(total.gram), np.asarray(total.cross), seed)
        total = total._replace(gram=on_device(gram), cross=on_device(cross))
    law = evidence.collapse(total)
    drawn = {"thetas": thetas, "betas": draw_betas(law, seed)}
    name = effects_of(model)
    yield Ask(name, drawn | {"correlations": correlations} if name == EFFECTS else drawn)
    return drawn, law


TRIES = 8
"""Draws of the last θ, where one among them is too far off for sums."""


def _last_statistics(model: SharedModel, q: np.ndarray, draws: int, seed: int, anchor: np.ndarray
                     ) -> Generator[Ask, Sums, tuple[np.ndarray, Statistics]]:
    for attempt in range(TRIES):
        thetas = last_thetas(model, q, draws, seed, attempt)
        asked = {"thetas": thetas, "few": np.array(0.0)} | anchored(model, anchor)
        asked |= {MATCHED: np.array(1.0)} if model.is_bounded else {}
        total = yield Ask(STATISTICS, asked)
        if not total["failed"] > 0:
            return thetas, _statistics(total)
    raise NumericalError(f"a site could not tell its statistics at the fit's last draws, {TRIES} times: they were not "
                         "finite, or beyond what sums can hold. Look for extreme values and for columns that all but "
                         "repeat others, or raise model.jitter")


def effects_of(model: SharedModel) -> str:
    """What asks for sums of effects."""
    return {"survival": SURVIVAL, "count": RATES, "binary": RISKS}.get(model.outcome, EFFECTS if model.arms == 2
                                                                       else ARMS)


def last_thetas(model: SharedModel, q: np.ndarray, draws: int, seed: int, attempt: int = 0) -> np.ndarray:
    """[L, p] from q, behind the effects: each has BETAS of the draws."""
    return evidence.draw(q, evidence.common_normals(seed, LAST_STREAM + attempt, max(draws // BETAS, 1), model.size))


def draw_betas(law: BetaLaw, seed: int) -> np.ndarray:
    """[L, B, q] antithetic draws of N(P⁻¹v, P⁻¹): mean ± P^{−T/2} ε."""
    mean, chol = np.asarray(law.mean), np.asarray(law.root)
    rng = np.random.default_rng(np.random.SeedSequence((seed, 6)))
    normals = rng.standard_normal((len(mean), mean.shape[1], BETAS // 2))
    away = np.swapaxes(np.linalg.solve(np.swapaxes(chol, 1, 2), normals), 1, 2)
    return mean[:, None] + np.concatenate([away, -away], 1)
