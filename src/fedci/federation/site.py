"""A site: owns its rows, answers typed requests with sums, and makes its own people's effects locally.

    Hello → (linkage) → (keys of the secure sums) → AskMoments → Prepare → Evaluate … → AskEffects

`answer` is the one door: whatever leaves the site leaves through it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from fedci.data import Table, id_records, restricted
from fedci.errors import (
    DisclosureError,
    FedciError,
    HandshakeError,
    MessageError,
    NumericalError,
    SiteError,
    StudyError,
    UsageError,
)
from fedci.estimands import Effect
from fedci.federation import refuting, site_diagnostics, trajectory
from fedci.federation.ask import POPULATIONS, shapes
from fedci.federation.rounds import Rules
from fedci.federation.site_linkage import SiteLinkage
from fedci.federation.site_noise import SiteNoise, site_noise
from fedci.federation.site_sums import JITTERED, SiteSums, digest, is_wide, site_secret, with_jitter
from fedci.federation.trajectory import Place
from fedci.messages import (
    MASKED,
    OWN,
    AskDiagnostic,
    AskEffects,
    AskLinkKey,
    AskMaskKey,
    AskMoments,
    AskSharedEffects,
    AskStatistics,
    AskTokens,
    Evaluate,
    Exclude,
    Hello,
    Message,
    OpenSum,
    Prepare,
    PullBack,
    Refusal,
    Reply,
    TakeCheckKey,
    TakeLinkKey,
    TakeMaskKeys,
    Tokens,
    WrapLinkKey,
)
from fedci.model import basis, elbo, evidence, padding, predict
from fedci.model.evidence import Statistics
from fedci.model.inducing import Blocks, bytes_needed, cut
from fedci.model.law import AnyModel
from fedci.model.posterior import Roots
from fedci.model.shared import SharedModel
from fedci.model.structure import model_of
from fedci.moments import describe_site, small_cells
from fedci.options import FitOptions, SharedOptions, preset_names, validated
from fedci.privacy.agreement import Credentials
from fedci.privacy.policy import SECURE_SUM_SITES
from fedci.privacy.released import Releases
from fedci.study import Study
from fedci.version import __version__

__all__ = ["POPULATIONS", "Posterior", "Prepared", "Site", "Units", "stream_cate"]
JITTERS = 7
"""The ladder: the model's jitter, then ten times more, … six times (1e-10 → 1e-4)."""
UNITS_SLACK = 1.1
"""Units are pooled from moments of four digits, and suppressed cells are not in them."""
PLACES = 16
"""Exchanges that a coordinator may go back to: its checkpoint is at most five rounds of two exchanges old."""
CHUNK = 512
"""New people predicted at a time: bounds memory, and one shape means one compilation."""


@dataclass(frozen=True)
class Units:
    """How this study's rows become the model's: pooled centre and spread, and indicators of missing values."""

    x_mean: np.ndarray
    x_sd: np.ndarray
    y_mean: float
    y_sd: float
    indicators: np.ndarray

    def covariates(self, x: np.ndarray) -> np.ndarray:
        """[n, d] raw, NaN where missing → [n, d + indicators]: centred, missing set to the pooled mean, flags added."""
        missing = np.isnan(x)
        scaled = np.where(missing, 0.0, (x - self.x_mean) / self.x_sd)
        return np.hstack([scaled, missing[:, self.indicators].astype(float)])

    def outcome(self, y: np.ndarray) -> np.ndarray:
        return (y - self.y_mean) / self.y_sd


@dataclass(frozen=True)
class Prepared:
    """The site once it knows the common units."""

    model: AnyModel
    units: Units
    arrays: elbo.SiteArrays | Blocks
    """Its rows; in blocks where they are many."""


def arrange(model: AnyModel, x: np.ndarray, w: np.ndarray, y: np.ndarray, u: np.ndarray, index: int):
    """The rows (model units) as the model computes on them: exactly, or in blocks above model.exact_rows."""
    if isinstance(model, SharedModel) and len(y) > model.options.exact_rows:
        return cut(x, w, y, u, index, model.kernel, model.options.inducing)
    return padding.pad_site(x, w, y, u, index)


@dataclass(frozen=True)
class Posterior:
    """What a site needs for its own predictions; received with the last request, kept at the site."""

    vector: np.ndarray
    draws: predict.Draws | predict.SharedDraws
    jitter: float


class Site:
    """One party of a study. `table` never leaves; `answer` sends sums."""

    def __init__(self, study: Study, table: Table, credentials: Credentials | None = None,
                 releases: Releases | None = None):
        self.study, self.table, self.name = study, table, table.site
        self.agreed, self.refuter = study, ""
        """The study that all parties hold: `study` is it, or while a refuter runs, the refuter's."""
        self.whole, self.credentials = table, credentials or Credentials()
        self.releases = releases
        """Of which people the site has told before; none: nobody remembers."""
        self.linkage: SiteLinkage | None = None
        self.kept = np.arange(table.rows)
        """Rows of the whole table that are in `table`; linkage may leave some out, and a refuter more."""
        self.linked = self.kept
        """Rows that linkage left."""
        self.described = False
        """Whether moments have left: then the rows stay as they are, or two answers would tell one person's."""
        self.options: FitOptions | None = None
        self.prepared: Prepared | None = None
        self.preparation: Prepare | None = None
        """The request that it came from."""
        self.posterior: Posterior | None = None
        self.jitter: float | None = None
        """What the last statistics needed; their pull-back takes the same."""
        self.run, self.seed, self.secret = "", 0, site_secret(self.credentials)
        self.sums: SiteSums | None = None
        """The secure sums of this run; none: not agreed on."""
        self.counts: np.ndarray | None = None
        """[3] people, treated, untreated as the moments told them."""
        self.rules: Rules | None = None
        """What the course of the fit follows from; none: the policy does not ask for it to be followed."""
        self.evaluations: frozenset[int] = frozenset()
        """Rounds of the talk in which the fit asked for something."""
        self.places: dict[int, Place] = {}
        """Round of the talk → where the fit stood at its request. Replaced, never changed."""
        self.diagnosed: site_diagnostics.Asked = frozenset()
        self.known: tuple[Posterior, predict.Known] | None = None
        self.trusting = False
        """Whether the site takes the coordinator's word for where the fit stands: in a process of its own, going on."""

    def answer(self, request: Message) -> Reply | Tokens | Refusal:
        """The reply to one request; an error becomes a Refusal with its code and reason, never a traceback."""
        try:
            return self._handler(request)(request)
        except FedciError as problem:
            return Refusal(request.run, request.round, self.name, problem.code, str(problem))

    def _handler(self, request: Message):
        handlers = {Hello: self._hello, AskMoments: self._moments, Prepare: self._prepare}
        handlers |= dict.fromkeys((Evaluate, AskEffects, AskStatistics, PullBack, AskSharedEffects), self._summed)
        handlers |= dict.fromkeys((AskMaskKey, TakeMaskKeys, TakeCheckKey, OpenSum), self._secure)
        handlers[AskDiagnostic] = self._diagnostic
        handlers |= dict.fromkeys((AskLinkKey, WrapLinkKey, TakeLinkKey, AskTokens, Exclude), self._link)
        if request.site != self.name:
            raise SiteError(f"site '{self.name}' got a request meant for another site")
        if type(request) not in handlers:
            raise SiteError(f"site '{self.name}' does not answer a {type(request).__name__}")
        return handlers[type(request)]

    def _reply(self, request: Message, sums: dict, **notes) -> Reply:
        arrays = {name: np.asarray(value) for name, value in sums.items()}
        return Reply(request.run, request.round, self.name, arrays, notes)

    # --- the phases

    def _hello(self, request: Hello) -> Reply:
        for what, ours, theirs in (("version of fedci", __version__, request.version),
                                   ("study", self.agreed.hash(), request.study_hash)):
            if ours != theirs:
                raise HandshakeError(f"site '{self.name}': the {what} differs: {ours} here, "
                                     f"{theirs} at the coordinator")
        self.options = validated(FitOptions, request.options, where="options sent by the coordinator")
        if request.run != self.run:
            self.run, self.sums, self.rules, self.places, self.evaluations = request.run, None, None, {}, frozenset()
            self.preparation = None
        self._take_refuter(request.refuter)
        self._check_options()
        self.seed = request.seed
        self._check_memory()
        return self._reply(request, {}, warnings=list(self.whole.warnings))

    def _check_options(self) -> None:
        """The options are the coordinator's to send, and the study's to say; a preset may be chosen."""
        policy, rounds = self.study.policy, self.options.optimiser.rounds
        if rounds > policy.max_rounds:
            raise DisclosureError(f"site '{self.name}': {rounds} rounds were asked for, the policy allows "
                                  f"{policy.max_rounds}. Lower optimiser.rounds")
        allowed = [refuting.options_of(one) if self.refuter else one for one in _options_of(self.agreed)]
        if policy.check_trajectory and self.options not in allowed:
            raise HandshakeError(f"site '{self.name}': the options of the fit are not the study's, nor those of a "
                                 f"shipped preset with the study's changes. Put them into the study file")

    def _check_memory(self) -> None:
        n, model = len(self.table.y), self.options.model
        if isinstance(model, SharedOptions) and n > model.exact_rows:
            d = 2 * self.table.x.shape[1]  # as many indicators of missing values at most
            width = basis.columns(d, model.directions, model.knots, model.common) // 2 + model.inducing + 1
            padding.check_memory(self.name, n, bytes_needed(n, d, width),
                                 "Lower model.inducing, or run the site on a larger machine.")
        else:
            padding.check_memory(self.name, n, padding.bytes_needed(n, self.options.optimiser.draws),
                                 "The covariance is exact: use the preset 'default', which needs memory in proportion "
                                 "to the rows, lower optimiser.draws, or run the site on a larger machine.")

    def _link(self, request: Message) -> Reply | Tokens:
        """Linkage, and after its last request the table without the people who stay elsewhere."""
        self._require(self.options, "a handshake")
        if not self.study.links or self.described:
            raise SiteError(f"site '{self.name}' was asked out of turn: linkage comes before the moments, in a study "
                            f"with ids")
        if isinstance(request, AskLinkKey) and (self.linkage is None or self.linkage.run != request.run):
            self.linkage = SiteLinkage(self.study, self.whole, request.run, self.credentials)
        answer = self._require(self.linkage, "a linkage").answer(request)
        if self.linkage.kept is None:
            return answer
        self.restore_linkage(self.linkage.kept)
        return replace(answer, notes=answer.notes | {"warnings": list(self.table.warnings[len(self.whole.warnings):])})

    def restore_linkage(self, kept: np.ndarray) -> None:
        """Only these rows of the whole table take part; the policy's minimum sizes hold for them too."""
        self.linked = kept
        self._take_rows(restricted(self.agreed, self.whole, kept))

    def _take_refuter(self, name: str) -> None:
        """The study and the rows of this run: the site's own, or a refuter's."""
        refuting.check_wanted(self.agreed, self.name, name)
        if name != self.refuter:
            self.refuter, self.study = name, refuting.plan(self.agreed, name)
            self._take_rows(self.whole.take(self.linked))

    def _take_rows(self, table: Table) -> None:
        self.table, self.kept = refuting.changed(self.agreed, table, self.linked, self.refuter)

    def _moments(self, request: AskMoments) -> Reply:
        self._require(self.options, "a handshake")
        t, policy = self.table, self.study.policy
        if self.releases is not None and policy.min_difference:
            self.releases.admit(self.name, self._people(), policy.min_difference)
        self.described = True
        noise = self._noise()
        told = noise.moments(t) if policy.noises("moments") else describe_site(t.x, t.w, t.y, t.kinds, policy)
        self.counts = np.array([told.rows, told.treated, told.rows - told.treated])
        return self._reply(request, {
            "x": told.x.values, "x_count": told.x.count, "suppressed": told.suppressed, "incomplete": told.incomplete,
            "y0": told.y[0].values, "y0_count": told.y[0].count, "y1": told.y[1].values, "y1_count": told.y[1].count,
            "w": told.w.values, "w_count": told.w.count})

    def _people(self) -> list[bytes]:
        """What identifies each person here: the ids, or else the row."""
        if self.agreed.ids:
            whole = id_records(self.agreed, self.whole)
            return [whole[row] for row in self.kept]
        t = self.whole.take(self.kept)
        return [row.tobytes() for row in np.column_stack([t.x, t.w, t.y]).astype(float)]

    def _prepare(self, request: Prepare) -> Reply:
        self._require(self.options, "a handshake")
        self._check_secured(request)
        units = Units(request.x_mean, request.x_sd, request.y_mean, request.y_sd, request.indicators)
        if self.study.policy.check_trajectory:
            self._check_units(request, units)
        x = units.covariates(self.table.x)
        model = model_of(self.options.model, x.shape[1], self.table.x.shape[1], request.sites)
        check_statistics(self.study, self.name, self.table.rows, model, len(self.sums.cohort) if self.masked else 1)
        arrays = arrange(model, x, self.table.w, units.outcome(self.table.y), request.u, request.index)
        self.prepared, self.preparation = Prepared(model, units, arrays), request
        if self.study.policy.check_trajectory and not self.trusting:
            self.rules = self._rules(request, model)
        return self._reply(request, {})

    def _rules(self, request: Prepare, model: AnyModel) -> Rules:
        shape = (request.sites, len(request.u))
        if isinstance(model, SharedModel):
            return Rules(model, self.options, self.seed, np.zeros(shape), request.people)
        if request.all_u.shape != shape or not np.array_equal(request.all_u[request.index], request.u):
            raise MessageError(f"site '{self.name}': the moments of all sites are missing, and it cannot follow the "
                               f"fit without them")
        return Rules(model, self.options, self.seed, request.all_u, request.people)

    def _check_units(self, request: Prepare, units: Units) -> None:
        """Pooled units make Σ_s n_s (variance + mean²) = n of every column, so no site's part of it is more. Units that
        blow a column up would turn the start's random weights into ones that tell people apart."""
        before = {**vars(self.preparation), "round": request.round} if self.preparation else None
        if before is not None and not same_fields(before, vars(request)):
            raise SiteError(f"site '{self.name}': the units of this run were given before, and are not changed")
        if not self.options.model.standardise or self.study.policy.noises("moments"):
            return
        x, told = self.table.x, ~small_cells(self.table.x, self.table.kinds, self.study.policy.min_cell)
        columns = np.column_stack([units.covariates(x)[:, :x.shape[1]][:, told], units.outcome(self.table.y)])
        if not (np.square(columns).sum(0) <= UNITS_SLACK * max(request.people, len(x))).all():
            raise DisclosureError(f"site '{self.name}': the common units are not those of all sites' people: they "
                                  f"blow a column up. Stop the study, and ask the coordinator")

    # --- sums over sites

    @property
    def masked(self) -> bool:
        """Whether only masked sums leave in this run."""
        return self.sums is not None and self.sums.ready

    def _secure(self, request: Message) -> Reply:
        """Keys of the secure sums, and the opening of one."""
        self._require(self.options, "a handshake")
        if self.study.policy.secure_sum is False:
            raise SiteError(f"site '{self.name}': this study's policy has no secure sums")
        if isinstance(request, AskMaskKey):
            self.sums = self.sums or SiteSums(self.study, self.name, request.run, self.secret, self.credentials)
            return self._reply(request, {}, **self.sums.offer(request))
        sums, notes = self._require(self.sums, "a request for its key"), {}
        if isinstance(request, OpenSum):
            return self._reply(request, {}, opened=sums.open(request))
        if isinstance(request, TakeMaskKeys):
            self.sums, notes = sums.take(request)
        else:
            self.sums = sums.take_check(request)
        return self._reply(request, {}, **notes)

    def _check_secured(self, request: Prepare) -> None:
        """A coordinator may not talk a site out of its masks by saying that there are but two sites."""
        if self.study.policy.secures(max(request.sites, len(self.study.sites))) and not self.masked:
            raise DisclosureError(f"site '{self.name}': the policy asks for secure sums, and no keys were agreed. At "
                                  f"least {SECURE_SUM_SITES} sites must take part")
        if self.masked and request.sites != len(self.sums.cohort):
            raise DisclosureError(f"site '{self.name}': the sums are over {len(self.sums.cohort)} sites and the model "
                                  f"is of {request.sites}")

    def _summed(self, request: Message) -> Reply:
        """The answer to a request of the fit: followed if the policy says so, and masked under secure sums."""
        ready = self._require(self.prepared, "the common units")
        compute = {Evaluate: self._evaluate, AskStatistics: self._statistics, PullBack: self._pull_back}
        self._check_count(request)
        if self.rules is not None:
            self._follow(request)
        reply = self._with_noise(request, compute.get(type(request), self._effects)(request))
        if not self.masked:
            return reply
        steps = round(np.log10(reply.notes.get("jitter", ready.model.options.jitter) / ready.model.options.jitter))
        self.sums, hidden, shares = self.sums.mask(request, dict(reply.sums) | {JITTERED: np.array(steps)},
                                                  is_wide(ready.model, type(request)))
        own = self._own_averages(reply) if isinstance(request, AskEffects | AskSharedEffects) else {}
        return self._reply(request, {MASKED: hidden} | own, shares=shares)

    def _noise(self) -> SiteNoise | None:
        return site_noise(self.study, self.options, self.table, self.secret)

    def _with_noise(self, request: Message, reply: Reply) -> Reply:
        """The answer as differential privacy lets it out; as it is where the study asks for none."""
        policy = self.study.policy
        if isinstance(request, AskEffects | AskSharedEffects) and policy.noises("effects"):
            return replace(reply, sums=self._noise().effects(reply.sums, self.counts), notes={})
        if isinstance(request, Evaluate) and policy.noises("gradients"):
            return replace(reply, sums=self._noise().evaluation(reply.sums, digest(request)), notes={})
        return reply

    def _check_count(self, request: Message) -> None:
        """A fit asks no more often than the policy's rounds: each answer tells one more function of the rows."""
        asked, most = self.evaluations | {request.round}, self.study.policy.max_rounds
        exchanges = 2 * most + 3 if isinstance(self.prepared.model, SharedModel) else most + 1  # and start, effects
        if len(asked) > exchanges:
            raise DisclosureError(f"site '{self.name}': this run has asked {exchanges} times, which is all that the "
                                  f"policy's {most} rounds take. Start another run, or agree on more rounds")
        self.evaluations = asked

    def _own_averages(self, reply: Reply) -> dict[str, np.ndarray]:
        """The sums of effects over the site's people, averaged over the draws, if the study asks for them."""
        if not self.study.policy.site_effects:
            return {}
        sums, own = reply.sums, {name: reply.sums[name] for name in ("ite_sd", "people")}
        for kind in ("cate", "ite"):
            means, variances = sums[f"{kind}_mean"], sums[f"{kind}_var"]
            own |= {f"{kind}_mean": means.mean(0)[None], f"{kind}_var": (variances.mean(0) + means.var(0))[None]}
        return {OWN + name: part for name, part in own.items()}

    def _follow(self, request: Message) -> None:
        """SiteError unless this is what the fit, from its seed and the sums so far, must ask now."""
        number = request.round
        place = self.places.get(number)
        if place is not None:  # walked before: a coordinator that goes on from its checkpoint
            ask = trajectory.now(self.rules, place)[1]
        elif before := [at for at in self.places if at < number]:
            last = self.places[max(before)]
            place, ask = trajectory.after(self.rules, last, self._told(request, last, max(before)))
        else:
            place, ask = trajectory.now(self.rules, trajectory.begin())
        if wrong := trajectory.differs(ask, request, int(self.prepared.arrays.index)):
            raise SiteError(f"site '{self.name}': the coordinator left the agreed course of the fit in round {number} "
                            f"({wrong}): it follows neither from the seed nor from the sums. Nothing was answered. "
                            f"Stop the study, and ask the coordinator")
        self.places = _newest(self.places | {number: place})

    def _told(self, request: Message, last: Place, number: int) -> dict[str, np.ndarray]:
        """The sum of the exchange before, as the coordinator tells it; under secure sums the sites' checks bind it."""
        ask = trajectory.now(self.rules, last)[1]
        expected = shapes(self.rules.model, ask.kind, ask.arrays, self.study.policy.noises("effects"))
        if self.masked:
            wide = is_wide(self.rules.model, ask.kind)
            return self.sums.told(request.previous, number, with_jitter(expected), wide)
        found = request.previous
        if any(name not in found or found[name].shape != shape for name, shape in expected.items()):
            raise MessageError(f"site '{self.name}': the sum of round {number} is not told with the next request, and "
                               f"it cannot follow the fit without")
        return found

    def place(self, number: int) -> dict[str, np.ndarray]:
        """Where the fit stood in an exchange, as named arrays: for the site's own disk."""
        asked = {"digest": np.array(self.sums.digests[number])} if self.masked else {}
        return trajectory.pack(self.places[number]) | asked

    def restore_places(self, packed: dict[int, dict[str, np.ndarray]]) -> None:
        """What `place` gave before a restart, by round."""
        self.places = {number: trajectory.unpack(self.rules, one) for number, one in packed.items()}
        if self.masked:
            digests = {number: str(one["digest"]) for number, one in packed.items()}
            self.sums = replace(self.sums, digests=digests | dict(self.sums.digests))

    # --- what is summed

    def _evaluate(self, request: Evaluate) -> Reply:
        """The named sums of one round. A numerical failure is counted, not raised: the optimiser then steps back."""
        ready = self._require(self.prepared, "the common units")
        self._check_shapes(request)
        roots = Roots(request.phi_roots, request.sigma_roots)
        for jitter in self._jitters(ready.model):
            value, (gradient, by_roots) = jax.device_get(
                elbo.evaluate_site(ready.model, request.theta, roots, ready.arrays, jitter))
            if all(np.isfinite(part).all() for part in (value, gradient, *by_roots)):
                return self._reply(request, {
                    "objective": value, "gradient": gradient, "phi_roots": by_roots.phi,
                    "sigma_roots": by_roots.sigma, "failed": 0}, **self._jitter_note(jitter))
        zeros = np.zeros_like(request.phi_roots)
        return self._reply(request, {"objective": 0.0, "gradient": np.zeros_like(request.theta), "phi_roots": zeros,
                                     "sigma_roots": zeros, "failed": 1})

    def _statistics(self, request: AskStatistics) -> Reply:
        """The sums of the first half of a round; a numerical failure is counted, as in `_evaluate`."""
        ready = self._require(self.prepared, "the common units")
        self._check_thetas(request)
        for jitter in self._jitters(ready.model):
            found = jax.device_get(evidence.statistics(ready.model, request.thetas, ready.arrays, jitter))
            if all(np.isfinite(part).all() for part in found):
                self.jitter = jitter
                return self._reply(request, found._asdict() | {"failed": 0}, **self._jitter_note(jitter))
        return self._reply(request, {name: np.zeros_like(part) for name, part in found._asdict().items()}
                           | {"failed": 1})

    def _pull_back(self, request: PullBack) -> Reply:
        ready = self._require(self.prepared, "the common units")
        self._check_thetas(request)
        cotangents = Statistics(*(getattr(request, name) for name in Statistics._fields))
        self._check_arrays(dict(zip(Statistics._fields, cotangents, strict=True)),
                           evidence.shapes(ready.model, len(request.thetas)))
        gradient = evidence.pull_back(ready.model, request.thetas, ready.arrays, self.jitter, cotangents)
        return self._reply(request, {"gradient": gradient})

    def _check_thetas(self, request: AskStatistics | PullBack | AskSharedEffects) -> None:
        model = self.prepared.model
        if not isinstance(model, SharedModel):
            raise SiteError(f"site '{self.name}' does not answer a {type(request).__name__} in this study: its model "
                            f"is not 'shared'")
        self._check_arrays({"thetas": request.thetas}, {"thetas": (len(np.atleast_1d(request.thetas)), model.size)})

    def _check_shapes(self, request: Evaluate | AskEffects) -> None:
        """Θ of this model, and as many Φ as Σ (and g): refused before anything is computed."""
        model = self.prepared.model
        if isinstance(model, SharedModel):
            raise SiteError(f"site '{self.name}' does not answer a {type(request).__name__} in this study: its model "
                            f"is 'shared'")
        draws = len(np.atleast_1d(request.phi_roots))
        expected = {"theta": (model.size,), "phi_roots": (draws, 2, 2), "sigma_roots": (draws, 2, 2)}
        expected |= {"g": (draws, 2)} if isinstance(request, AskEffects) else {}
        self._check_arrays({name: getattr(request, name) for name in expected}, expected)

    def _check_arrays(self, arrays: dict[str, np.ndarray], expected: dict[str, tuple]) -> None:
        for name, shape in expected.items():
            array = arrays[name]
            if array.shape != shape or array.dtype != np.float64:
                raise MessageError(f"site '{self.name}': {name} has shape {array.shape} and type {array.dtype}, "
                                   f"needs {shape} and float64")

    def _jitters(self, model: AnyModel) -> list[float]:
        return [model.options.jitter * 10.0**k for k in range(JITTERS)]

    def _jitter_note(self, jitter: float) -> dict:
        return {"jitter": jitter} if jitter != self.prepared.model.options.jitter else {}

    def _effects(self, request: AskEffects | AskSharedEffects) -> Reply:
        ready = self._require(self.prepared, "the common units")
        vector, draws = self._received_draws(request)
        for jitter in self._jitters(ready.model):
            own = jax.device_get(self._sums_of_effects(ready, vector, draws, request.correlations, jitter))
            if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(own)):
                self.posterior = Posterior(vector, draws, jitter)
                return self._reply(request, self._effect_sums(own, request.correlations), **self._jitter_note(jitter))
        raise NumericalError(f"site '{self.name}': the covariance of the outcomes is not positive definite even with "
                             f"jitter {jitter:g}. Look for repeated rows, or raise model.jitter.")

    @staticmethod
    def _sums_of_effects(ready: Prepared, vector, draws, correlations, jitter) -> predict.SiteEffects:
        """Over everyone, the treated and the controls."""
        if isinstance(ready.arrays, Blocks):
            return predict.block_effects(ready.model, ready.arrays, draws, correlations, jitter)
        mask, w = ready.arrays.mask, ready.arrays.w
        weights = np.stack([mask, mask * w, mask * (1 - w)])
        return predict.site_effects(ready.model, vector, ready.arrays, draws, weights, correlations, jitter)

    def _received_draws(self, request: AskEffects | AskSharedEffects):
        """(Θ, draws) of the request, checked; the model `shared` has a θ for each draw and no Θ."""
        if isinstance(request, AskEffects):
            self._check_shapes(request)
            roots = Roots(jnp.asarray(request.phi_roots), jnp.asarray(request.sigma_roots))
            return np.asarray(request.theta), predict.Draws(roots, jnp.asarray(request.g))
        self._check_thetas(request)
        shape = (len(request.thetas), request.betas.shape[1] if request.betas.ndim == 3 else 1,
                 self.prepared.model.columns)
        self._check_arrays({"betas": request.betas}, {"betas": shape})
        return np.zeros(0), predict.SharedDraws(jnp.asarray(request.thetas), jnp.asarray(request.betas))

    def _effect_sums(self, own: predict.SiteEffects, correlations: np.ndarray) -> dict:
        """Per population and draw, in outcome units: Σ τ(x_i) 'cate' [L, 3], Σ τ_i 'ite' [L, C, 3]; and Σ_i sd(τ_i)
        from every eighth draw, which is enough for a mean over people and costs n³ only there."""
        s, ready, q, w = self.prepared.units.y_sd, self.prepared, self.posterior, self.table.w
        some = jax.tree.map(lambda leaf: leaf[::8], q.draws)
        spread = _summed_sd(ready.model, replace(q, draws=some), ready.arrays, correlations, s)
        return {"cate_mean": s * own.cate.mean, "cate_var": s**2 * own.cate.var,
                "ite_mean": s * own.ite.mean, "ite_var": s**2 * own.ite.var,
                "ite_sd": spread, "people": np.array([len(w), w.sum(), len(w) - w.sum()], np.int64)}

    def _diagnostic(self, request: AskDiagnostic) -> Reply:
        ready, policy = self._require(self.prepared, "the common units"), self.study.policy
        if policy.epsilon is not None:
            raise DisclosureError(f"site '{self.name}': diagnostics are sums without noise, and this study promises "
                                  f"differential privacy: none are answered")
        self.diagnosed = site_diagnostics.admitted(self.diagnosed, request)
        here = site_diagnostics.Here(self.table, policy, ready.units.indicators, ready.model, ready.arrays,
                                     int(ready.arrays.index), ready.units.y_mean, ready.units.y_sd, self.posterior,
                                     not self.masked or policy.site_effects)
        return self._reply(request, site_diagnostics.answer(here, request))

    def _require(self, value, what: str):
        if value is None:
            raise SiteError(f"site '{self.name}' was asked out of turn: it waits for {what} first")
        return value

    # --- for the site's own people: nothing below is ever sent

    def _posterior(self) -> Posterior:
        if self.posterior is None:
            raise UsageError(f"site '{self.name}' has no fitted model yet: run the study first")
        return self.posterior

    def cate(self, x: np.ndarray | None = None, outcome_noise: bool = False) -> Effect:
        """τ(x) of new people (raw covariates [p, d]) or, without x, of the site's own."""
        x = self.table.x if x is None else x
        return self._streamed(self.prepared.units.covariates(x), outcome_noise)

    def _streamed(self, x: np.ndarray, outcome_noise: bool) -> Effect:
        ready, q = self.prepared, self._posterior()
        return stream_cate(ready.model, q.vector, self._known(), q.draws, x, q.jitter, ready.units.y_sd, outcome_noise)

    def _known(self) -> predict.Known:
        """What predictions need of the site's rows; of a large site's, worked out once for each posterior."""
        q = self._posterior()
        if self.known is None or self.known[0] is not q:
            self.known = q, predict.known(self.prepared.model, self.prepared.arrays, q.draws, q.jitter)
        return self.known[1]

    def ite(self, noise_correlation: float | None = None) -> Effect:
        """Realised effects of the site's own people, in the table's order."""
        ready, q = self.prepared, self._posterior()
        rows = slice(0, len(self.table.y))
        return _one(_each(ready.model, q, ready.arrays, _given(noise_correlation), ready.units.y_sd, rows))

    def impute(self, x: np.ndarray, w: np.ndarray, y: np.ndarray, noise_correlation: float | None = None,
               draws: int | None = None) -> Effect:
        """Realised effects of *other* people whose outcome is known: they are conditioned on like the site's own."""
        ready, q = self.prepared, self._posterior()
        q = replace(q, draws=jax.tree.map(lambda leaf: leaf[:draws], q.draws))
        x = ready.units.covariates(np.vstack([self.table.x, x]))
        y = ready.units.outcome(np.concatenate([self.table.y, y]))
        both = arrange(ready.model, x, np.concatenate([self.table.w, w]), y, np.asarray(ready.arrays.u),
                       int(ready.arrays.index))
        rows = slice(len(self.table.y), len(y))
        return _one(_each(ready.model, q, both, _given(noise_correlation), ready.units.y_sd, rows))


def check_statistics(study: Study, site: str, rows: int, model: AnyModel, cohort: int = 1) -> None:
    """Nearly as many columns of T (model `shared`), or parameters, as people: sums may tell rows apart. With a `cohort`
    only the sum over so many sites leaves, and of the others the site knows the policy's minimum."""
    policy, people = study.policy, rows + (cohort - 1) * study.policy.min_rows
    limit, where = policy.statistics_per_row, "in the clear" if cohort == 1 else "in a sum of all sites"
    if model.size > policy.max_parameters_per_row * people:
        raise DisclosureError(
            f"site '{site}': the model has {model.size} parameters for {people} people; the policy allows "
            f"{policy.max_parameters_per_row:g} for each {where}. Use a smaller model or more people; or, if every "
            f"site consents, raise policy.max_parameters_per_row in the study")
    if isinstance(model, SharedModel) and model.columns > limit * people:
        raise DisclosureError(
            f"site '{site}': the model 'shared' would send sums over {model.columns} columns of {people} people; the "
            f"policy allows {limit:g} columns per person {where}. Use fewer covariates or model.knots, more people, or "
            f"the preset 'paper'.")


def same_fields(one: dict, two: dict) -> bool:
    return one.keys() == two.keys() and all(np.array_equal(one[name], two[name]) for name in one)


def _options_of(study: Study) -> list[FitOptions]:
    """Of each shipped preset that the study allows, with the study's changes."""
    found = []
    for name in preset_names():
        with suppress(StudyError):
            found.append(study.fit_options(name))
    return found


def _newest(by_round: dict[int, Place]) -> dict[int, Place]:
    """The last rounds: further back than to its checkpoint no coordinator goes."""
    return {number: by_round[number] for number in sorted(by_round)[-PLACES:]}


def _each(model, q: Posterior, arrays, correlations: np.ndarray, y_sd: float, rows: slice) -> Effect:
    """Realised effects [L, C, rows] in outcome units."""
    if not isinstance(arrays, Blocks):
        each = jax.device_get(predict.ite_each(model, q.vector, arrays, q.draws, correlations, q.jitter))
        return Effect(each.mean[..., rows], each.var[..., rows]).scaled(y_sd)
    parts = list(_each_by_block(model, q, arrays, correlations))
    order = np.argsort(np.concatenate([place for place, _ in parts]))[rows]
    return Effect(*(np.concatenate([getattr(e, name) for _, e in parts], -1)[..., order]
                    for name in ("means", "variances"))).scaled(y_sd)


def _summed_sd(model, q: Posterior, arrays, correlations: np.ndarray, y_sd: float) -> np.ndarray:
    """[C] Σ_i sd(τ_i)."""
    if isinstance(arrays, Blocks):
        return y_sd * sum(e.sd.sum(1) for _, e in _each_by_block(model, q, arrays, correlations))
    return _each(model, q, arrays, correlations, y_sd, slice(0, int(arrays.mask.sum()))).sd.sum(1)


def _each_by_block(model, q: Posterior, blocks: Blocks, correlations: np.ndarray):
    """(the rows of a block's people, their realised effects [L, C, people] in model units), block by block."""
    known = predict.known(model, blocks, q.draws, q.jitter)
    for i, (place, mask) in enumerate(zip(np.asarray(blocks.row), np.asarray(blocks.mask) > 0, strict=True)):
        each = jax.device_get(predict.ite_of_block(model, known, blocks.x[i], blocks.y[i], blocks.arm[i], correlations))
        yield place[mask], Effect(each.mean[..., mask], each.var[..., mask])


def _given(noise_correlation: float | None) -> np.ndarray:
    return np.array([np.nan if noise_correlation is None else noise_correlation])


def _one(effect: Effect) -> Effect:
    """[L, 1, n] → [L, n]."""
    return Effect(effect.means[:, 0], effect.variances[:, 0])


def stream_cate(model: AnyModel, vector, known: predict.Known, draws: predict.Draws | predict.SharedDraws,
                x: np.ndarray, jitter: float,
                y_sd: float, outcome_noise: bool) -> Effect:
    """τ(x) for any number of people, in chunks of one shape; with outcome noise it is a person's realised effect."""
    parts = []
    for start in range(0, max(len(x), 1), CHUNK):
        part = x[start:start + CHUNK]
        padded = np.pad(part, ((0, CHUNK - len(part)), (0, 0))) if len(x) > CHUNK else part
        moments = predict.cate_at(model, vector, known, draws, padded, jitter)
        parts.append(jax.tree.map(lambda leaf, n=len(part): np.asarray(leaf)[:, :n], moments))
    mean, var = (np.concatenate([getattr(p, k) for p in parts], axis=1) for k in ("mean", "var"))
    if outcome_noise:
        var = var + np.asarray(predict.noise_variance(model, vector, draws))[:, None]
    return Effect(mean, var).scaled(y_sd)
