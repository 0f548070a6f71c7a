"""The model `shared` fitted in a handful of exchanges: each tells the products of a dictionary, and the fit is at home.

    AskProducts(θ̂)              → G of ω alone at a θ̂ with A = 0: ridge regressions, where the fit starts
    AskProducts(θ̂, β̂) …         → G at the point, and a series of the own functions' scales   (`dictionary`, `home`);
                                  from the fourth on directions have tangents
    AskSharedEffects(θ, β)      → sums of effects

Between two of them every party runs the same fit on what was told (`home.ascend`); in one process it is run once. What
was told last is kept in the optimiser's state as one vector, the *anchor*: with it β̃'s law is known at every θ near.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedci.model.family import NO_ANCHOR, Answer, Arrays, Ask, Rules, Sums
from fedci.model.rows import Anchor, BetaLaw, Rows, on_device
from fedci.model.shared import dictionary, evidence, exchanges, home
from fedci.model.shared.dictionary import Point, Products, Span, Stage
from fedci.model.shared.evidence import Statistics
from fedci.model.shared.exchanges import EFFECTS
from fedci.model.shared.home import OwnSeries
from fedci.model.shared.shared_family import Memory, SharedFamily

PRODUCTS = "AskProducts"


FALL = 5.0
"""Nats by which the bound at a message's point may lie below that at the point of the one before: about what it is
known to, away from its point. Where it is lower, the step led away. What an ascent promises is no measure: nothing
would be as good again."""


class Told(NamedTuple):
    """What the last good message of products said, and where."""

    number: int
    """Of messages so far; after the first β̂ is known."""
    point: Point
    total: Statistics
    """Of one draw."""
    value: float = 0.0
    """The bound at the point, as found: before the ascent on it."""

    @property
    def packed(self) -> np.ndarray:
        sums = (np.ravel(np.asarray(part)) for part in self.total)
        return np.concatenate([[float(self.number), float(self.point.stage), self.value], self.point.packed, *sums])


class FewFamily(SharedFamily):
    """θ and its prior are those of `shared`; what is asked is not."""

    # --- the course of a fit

    @property
    def asks(self) -> tuple[str, ...]:
        return PRODUCTS, exchanges.effects_of(self)

    @property
    def fits_at_home(self) -> bool:
        return True

    @property
    def has_stages(self) -> bool:
        return False

    def exchanges(self, rounds: int) -> int:
        """The effects take one."""
        return rounds + 1

    def dictionary(self, stage: int) -> dict[str, int]:
        """The first message has no series yet."""
        columns = dictionary.of(self, Stage(min(stage, Stage.TURNED))).columns
        series = {"own": len(home.series_places(self)), "scores": home.SCORES} if stage else {"own": 0, "scores": 0}
        return {"dictionary": columns, "dictionary_products": columns * (columns + 1) // 2} | series

    def start(self, rules: Rules) -> Generator[Ask, Sums, np.ndarray]:
        """Nothing is asked: the first products are those of ridge regressions."""
        yield from ()
        vector = self.ravel(self.ridge)
        return np.concatenate([vector, np.full(vector.size, np.log(exchanges.START_SD))])

    def evaluation(self, rules: Rules, query: np.ndarray, stream: int, first: bool,
                   anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, tuple[float, np.ndarray, np.ndarray]]:
        """(the bound, the next q, what was told): one exchange."""
        here, told = np.split(query, 2)[0], self.unpacked(anchor)
        law = None if told is None else self._laws(told, here[None], rules.people)
        number = 1 if told is None else told.number + 1
        point = Point(here, None if law is None else np.asarray(
            dictionary.coefficients(self, self.unravel(jnp.asarray(here)), law.mean[0])), dictionary.stage_of(number))
        last = number == rules.options.optimiser.rounds
        total = yield Ask(PRODUCTS, self._asked(point, law, last))
        if total["failed"] > 0:
            return -np.inf, query, anchor
        now = Told(number, point,
                   Statistics(*(on_device(np.asarray(total[name])[None]) for name in Statistics._fields)))
        series = np.concatenate([np.ravel(total[f"own_{name}"]) for name in OwnSeries._fields])
        found, value, q = _ascended(self, rules.people, rules.seed, rules.options.optimiser.draws, query.tobytes(),
                             anchor.tobytes(), now.packed.tobytes(), series.tobytes())
        if told is not None and self._is_worse(found, told, last):
            return value, self._back(query, told, last), told._replace(number=number).packed
        return value, np.frombuffer(q), now._replace(value=found).packed

    def _is_worse(self, value: float, before: Told, last: bool) -> bool:
        """`value`: at the message's point. The first message has no bound, and what rests on the nearest Gaussian is
        none."""
        return before.number > 1 and not (last and self.is_bounded) and value < before.value - FALL

    def _back(self, query: np.ndarray, told: Told, last: bool) -> np.ndarray:
        """The next point half as far from the last good one; after the last message what that one led to, with the own
        functions that its products have."""
        (means, log_sds), there = np.split(query, 2), np.asarray(told.point.vector)
        held = np.isin(np.arange(self.size), home.own_places(self))
        means = np.where(held, there, means) if last else 0.5 * (means + there)
        return np.concatenate([means, log_sds])

    def _asked(self, point: Point, law: BetaLaw | None, last: bool) -> dict[str, np.ndarray]:
        """Where the likelihood needs a Gaussian in its place, the fit rests on one that bounds it, effects on the
        nearest: on the last message."""
        return {"point": point.packed, "stage": np.array(float(point.stage)), "matched": np.array(float(last)),
                "beta_mean": np.zeros(0) if law is None else np.asarray(law.mean[0]),
                "beta_root": np.zeros((0, 0)) if law is None else np.asarray(law.root[0])}

    def effects(self, rules: Rules, theta: np.ndarray, correlations: np.ndarray,
                anchor: np.ndarray = NO_ANCHOR) -> Generator[Ask, Sums, tuple[dict[str, np.ndarray], BetaLaw]]:
        """β̃'s law at each draw of θ is known from what was told last."""
        thetas = exchanges.last_thetas(self, theta, rules.options.prediction.draws, rules.seed)
        told = self.unpacked(anchor)
        if told is None:
            raise AssertionError("effects follow at least one exchange of products")
        law = self._laws(told, thetas, rules.people)
        drawn = {"thetas": thetas, "betas": exchanges.draw_betas(law, rules.seed)}
        name = exchanges.effects_of(self)
        yield Ask(name, drawn | {"correlations": correlations} if name == EFFECTS else drawn)
        return drawn, law

    # --- what was told

    def unpacked(self, anchor: np.ndarray) -> Told | None:
        """From its packed form."""
        if not anchor.size:
            return None
        stage = Stage(int(anchor[1]))
        by = dictionary.of(self, stage)
        shapes = evidence.shapes(by, 1)
        ends = np.cumsum([3, self.size, by.size - self.size, *(int(np.prod(shape)) for shape in shapes.values())])
        _, vector, known, *parts = np.split(anchor, ends[:-1])
        point = Point(vector, known.reshape(2, -1) if known.size else None, stage)
        return Told(int(anchor[0]), point, Statistics(*(on_device(part.reshape(shape)) for part, shape
                                                        in zip(parts, shapes.values(), strict=True))), float(anchor[2]))

    def spanned(self, told: Told, people: int) -> tuple[Products, Span]:
        return dictionary.products(told.total), dictionary.span(self, told.point)

    def after_next(self, q: np.ndarray, now: Told, last: Told, people: int, normals: np.ndarray,
                   series: OwnSeries) -> tuple[float, float, np.ndarray]:
        """(the bound at the point, at the end, q) after a message that was not the first."""
        total, by = self.spanned(now, people)
        late, here = now.number - 2, np.asarray(now.point.vector)
        steps, far = home.STEPS[min(late, len(home.STEPS) - 1)], home.FAR[min(late, len(home.FAR) - 1)]
        found, value, after = home.ascend(self, q, total, by, now.point, float(people), normals, steps)
        told, own = (jax.tree.map(lambda part: part[0], self._laws(message, here[None], people))
                     for message in (last, now))
        return found, value, home.with_own_step(self, after, here, home.under(series, told, own), series, far)

    def after_first(self, now: Told, people: int, normals: np.ndarray) -> tuple[float, float, np.ndarray]:
        """(the bound, that again, q) after the first message: where the fit starts."""
        total, by = self.spanned(now, people)
        value, beta, gram = home.ridge(self, total, by, now.point, float(people))
        return value, value, home.beginning(self, beta, gram, people)

    def _laws(self, told: Told, vectors: np.ndarray, people: int) -> BetaLaw:
        total, by = self.spanned(told, people)
        return home.laws_at(self, on_device(vectors), total, by, told.point, float(people))

    # --- what a site answers

    def answer(self, name: str, arrays: Arrays, rows: Rows, memory: Memory | None) -> Answer | None:
        """With the least jitter that makes them finite; none does: 0, and counted."""
        point, by = arrays["point"], dictionary.of(self, Stage(int(arrays["stage"])))
        local = rows.local(self, self._touching(arrays), 1, bool(arrays["matched"]))
        for jitter in self.jitters:
            found = evidence.statistics(by, on_device(point[None]), rows, jitter, local)._asdict()
            sums = ({name: np.asarray(part)[0] for name, part in found.items()}
                    | self._series(arrays, rows, jitter, jax.tree.map(lambda part: part[0], local)))
            if all(np.isfinite(part).all() for part in sums.values()):
                return Answer(sums | {"failed": np.array(0)}, jitter)
        return Answer({name: np.zeros_like(part) for name, part in sums.items()} | {"failed": np.array(1)},
                      self.options.jitter)

    def _touching(self, arrays: Arrays) -> Anchor | None:
        """Of a bound of the likelihood: β̃'s law at the point, as the message before has it."""
        if not (self.is_bounded and arrays["stage"]):
            return None
        root = arrays["beta_root"]
        gram = root @ root.T
        upper = (gram - np.eye(len(gram)))[np.triu_indices(len(gram))]
        return Anchor(*(on_device(part[None]) for part in (arrays["point"][:self.size], upper,
                                                           gram @ arrays["beta_mean"])))

    def _series(self, arrays: Arrays, rows: Rows, jitter: float, local: Any) -> dict[str, np.ndarray]:
        """Nothing while β̃'s law is not known."""
        if not arrays["stage"]:
            return {f"own_{name}": np.zeros(shape) for name, shape in OwnSeries.shapes(0).items()}
        law = BetaLaw(on_device(arrays["beta_mean"]), on_device(arrays["beta_root"]))
        series = home.own_series(self, on_device(arrays["point"][:self.size]), law, rows, jitter, local)
        return {f"own_{name}": np.asarray(part) for name, part in series._asdict().items()}

    def units(self, ask: Ask, people: int) -> dict[str, np.ndarray]:
        """As of statistics; a series is of the size of a log likelihood."""
        if ask.name != PRODUCTS:
            return {}
        theta = self.unravel(ask.arrays["point"][:self.size])
        most = np.asarray(people / dictionary.noise_level(theta))
        return dict.fromkeys((*Statistics._fields, *(f"own_{name}" for name in OwnSeries._fields)), most)


@lru_cache(maxsize=8)
def _ascended(model: FewFamily, people: int, seed: int, draws: int, query: bytes, before: bytes, told: bytes,
              series: bytes) -> tuple[float, float, bytes]:
    """(the bound at the point, at the end, q after a message): a function of bytes, so that all parties in one process
    run it once."""
    q, now, last = np.frombuffer(query), model.unpacked(np.frombuffer(told)), model.unpacked(np.frombuffer(before))
    if now is None:
        raise AssertionError("a message was told")
    normals = evidence.common_normals(seed, 0, draws, model.size)
    found, value, after = (model.after_first(now, people, normals) if last is None else
                    model.after_next(q, now, last, people, normals, _own_series(model, series)))
    return found, value, after.tobytes()


def _own_series(model: FewFamily, packed: bytes) -> OwnSeries:
    shapes = OwnSeries.shapes(len(home.series_places(model)))
    parts = np.split(np.frombuffer(packed), np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1])
    return OwnSeries(*(on_device(part.reshape(shape)) for part, shape in zip(parts, shapes.values(), strict=True)))
