"""A site: owns its rows, answers typed requests with sums, and makes its own people's effects locally.

    Hello → (linkage) → (keys of the secure sums) → AskMoments → Prepare → Evaluate … → AskEffects

`answer` is the one door: whatever leaves the site leaves through it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from fedci.effect import population_sizes
from fedci.errors import (
    DisclosureError,
    FedciError,
    HandshakeError,
    MessageError,
    NumericalError,
    SiteError,
    UsageError,
)
from fedci.model.families import model_of
from fedci.model.family import Ask, Family, FirstStage, Rules, Sums
from fedci.model.rows import Rows, SiteEffects
from fedci.privacy.agreement import Credentials
from fedci.protocol import refuting, stages
from fedci.protocol.ask import arrays_of, shapes
from fedci.protocol.messages import (
    AskDiagnostic,
    AskEffects,
    AskLinkKey,
    AskMaskKey,
    AskMoments,
    AskSharedEffects,
    Evaluate,
    Hello,
    Message,
    OpenSum,
    Prepare,
    Refusal,
    Reply,
    TakeMaskKeys,
    Tokens,
)
from fedci.protocol.packing import JITTERED, is_wide, rescaled, with_jitter
from fedci.protocol.requests import MASKED, OWN, asked, row_of
from fedci.site import diagnosing
from fedci.site.cohorts import Releases
from fedci.site.course import Course
from fedci.site.limits import (
    check_asked,
    check_memory,
    check_options,
    check_statistics,
    check_unchanged,
    check_units,
    first_stage,
)
from fedci.site.linking import SiteLinkage
from fedci.site.masking import SiteSums, digest, site_secret
from fedci.site.noising import SiteNoise, site_noise
from fedci.site.people import People, Posterior, summed_sd
from fedci.site.prepared import Prepared, Units
from fedci.study.options import FitOptions, validated
from fedci.study.policy import SECURE_SUM_SITES
from fedci.study.study import Study
from fedci.table.moments import describe_site
from fedci.table.table import Table, id_records, restricted
from fedci.version import __version__


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
        self.memory: Any = None
        """What the model keeps of the last question of the fit for the next one."""
        self.run, self.seed, self.secret = "", 0, site_secret(self.credentials)
        self.sums: SiteSums | None = None
        """The secure sums of this run; none: not agreed on."""
        self.counts: np.ndarray | None = None
        """[3] people, treated, untreated as the moments told them."""
        self.course: Course | None = None
        """Of the fit, as far as it was followed; none: the policy does not ask for it."""
        self.evaluations: frozenset[int] = frozenset()
        """Rounds of the talk in which the fit asked for something."""
        self.diagnosed: diagnosing.Asked = frozenset()
        self.silent_from: int | None = None
        """The round from which the site keeps out of the run's propensity model; none: it is in it."""
        self.own: People | None = None
        self.earlier: dict[int, dict[str, np.ndarray]] = {}
        """Round → where the fit stood (`Course.packed`), of a process before this one."""

    def answer(self, request: Message) -> Reply | Tokens | Refusal:
        """The reply to one request; an error becomes a Refusal with its code and reason, never a traceback."""
        try:
            return self._handler(request)(request)
        except FedciError as problem:
            return Refusal(request.run, request.round, self.name, problem.code, str(problem))

    def _handler(self, request: Message) -> Callable[[Any], Message]:
        """By the request's own type, or else by its phase."""
        own = {Hello: self._hello, AskMoments: self._moments, Prepare: self._prepare, OpenSum: self._secure,
               AskDiagnostic: self._diagnostic}
        phases = {"linkage": self._link, "keys": self._secure, "fit": self._summed, "effects": self._summed}
        handler = own.get(type(request)) or phases.get(row_of(request).phase)
        if request.site != self.name:
            raise SiteError(f"site '{self.name}' got a request meant for another site")
        if handler is None:
            raise SiteError(f"site '{self.name}' does not answer a {type(request).__name__}")
        return handler

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
            self.run, self.sums, self.course, self.evaluations = request.run, None, None, frozenset()
            self.preparation, self.silent_from = None, None
        self._take_refuter(request.refuter)
        check_options(self.name, self.agreed, self.options, self.refuter)
        self.seed = request.seed
        check_memory(self.table, self.options)
        return self._reply(request, {}, warnings=list(self.whole.warnings))

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
            self.releases.admit(self.name, self._people(), t.w, policy.min_difference, policy.min_cell)
        self.described = True
        noise = self._noise()
        told = noise.moments(t) if policy.noises("moments") else describe_site(t.x, t.w, t.y, t.kinds, policy)
        self.counts = population_sizes(told.rows - told.treated, told.treated)
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
            check_unchanged(self.name, self.preparation, request)
            check_units(self.table, self.study, self.options, units, request.people)
        x = units.covariates(self.table.x)
        model = model_of(self.options.model, x.shape[1], self.table.x.shape[1], request.sites)
        w, y, treated = self.table.w, units.outcome(self.table.y), int(self.table.w.sum())
        stage = first_stage(self.name, self.options, request)
        fewest = sum(stages.some_of(n, stage.rows) for n in (treated, len(w) - treated)) if stage.rows else len(w)
        check_statistics(self.study, self.name, fewest, model, len(self.sums.cohort) if self.masked else 1)
        rows = model.rows(x, w, y, request.u, request.index)
        first = model.rows_of_stage(rows, stages.chosen(w, stage.rows), x, w, y) if stage.rows else None
        self.prepared, self.preparation = Prepared(model, units, rows, stage, first), request
        if self.study.policy.check_trajectory:
            places = self.course.places if self.course else {}  # asked again, it still knows where the fit stood
            course = Course(self.name, self._rules(request, model, stage), request.index, places)
            self.course = course if places else course.restored(self.earlier)
        return self._reply(request, {})

    def _rules(self, request: Prepare, model: Family, stage: FirstStage) -> Rules:
        shape = (request.sites, len(request.u))
        if not model.needs_moments:
            return Rules(model, self.options, self.seed, np.zeros(shape), request.people, stage)
        if request.all_u.shape != shape or not np.array_equal(request.all_u[request.index], request.u):
            raise MessageError(f"site '{self.name}': the moments of all sites are missing, and it cannot follow the "
                               f"fit without them")
        return Rules(model, self.options, self.seed, request.all_u, request.people)

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
        self._check_count(request)
        if self.course is not None:
            self.course = self.course.followed(request, self._told)
        effects = isinstance(request, AskEffects | AskSharedEffects)
        reply = self._with_noise(request, (self._effects if effects else self._round)(request))
        if not self.masked:
            return reply
        steps = round(np.log10(reply.notes.get("jitter", ready.model.options.jitter) / ready.model.options.jitter))
        sums = rescaled(reply.sums, 1.0 / ready.units.y_sd) | {JITTERED: np.array(steps)}
        self.sums, hidden, shares = self.sums.mask(request, sums,
                                                  is_wide(ready.model, asked(request)))
        own = self._own_averages(reply) if effects else {}
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
        rounds, most = self.evaluations | {request.round}, self.study.policy.max_rounds
        exchanges = self.prepared.model.exchanges(most)
        if len(rounds) > exchanges:
            raise DisclosureError(f"site '{self.name}': this run has asked {exchanges} times, which is all that the "
                                  f"policy's {most} rounds take. Start another run, or agree on more rounds")
        self.evaluations = rounds

    def _own_averages(self, reply: Reply) -> dict[str, np.ndarray]:
        """The sums of effects over the site's people, averaged over the draws, if the study asks for them."""
        if not self.study.policy.site_effects:
            return {}
        sums, own = reply.sums, {name: reply.sums[name] for name in ("ite_sd", "people")}
        for kind in ("cate", "ite"):
            means, variances = sums[f"{kind}_mean"], sums[f"{kind}_var"]
            own |= {f"{kind}_mean": means.mean(0)[None], f"{kind}_var": (variances.mean(0) + means.var(0))[None]}
        return {OWN + name: part for name, part in own.items()}

    def _told(self, request: Message, ask: Ask, number: int) -> Sums:
        """The sum of the exchange before, as the coordinator tells it; under secure sums the sites' checks bind it."""
        model = self.course.rules.model
        expected = shapes(model, ask, self.study.policy.noises("effects"))
        if self.masked:
            return self.sums.told(request.previous, number, with_jitter(expected), is_wide(model, ask.name))
        found = request.previous
        if any(name not in found or found[name].shape != shape for name, shape in expected.items()):
            raise MessageError(f"site '{self.name}': the sum of round {number} is not told with the next request, and "
                               f"it cannot follow the fit without")
        return found

    def place(self, number: int) -> dict[str, np.ndarray]:
        """Where the fit stood in an exchange, as named arrays: for the site's own disk."""
        about = {"digest": np.array(self.sums.digests[number])} if self.masked else {}
        return self.course.packed(number) | about

    def restore_places(self, packed: dict[int, dict[str, np.ndarray]]) -> None:
        """What `place` gave before a restart, by round."""
        self.course = self.course.restored(packed)
        if self.masked:
            digests = {number: str(one["digest"]) for number, one in packed.items()}
            self.sums = replace(self.sums, digests=digests | dict(self.sums.digests))

    # --- what is summed

    def _round(self, request: Message) -> Reply:
        """The named sums of a question of the fit. A numerical failure is counted, not raised: the optimiser then steps
        back."""
        ready, name, arrays = self.prepared, asked(request), arrays_of(request)
        check_asked(self.name, ready.model, name, arrays)
        answer = ready.model.answer(name, arrays, self._rows(arrays), self.memory)
        self.memory = answer and answer.memory
        answer = self._require(answer, "statistics that are finite")
        return self._reply(request, answer.sums, **self._jitter_note(answer.jitter))

    def _rows(self, arrays: Mapping[str, np.ndarray]) -> Rows:
        """Those that the question is about."""
        few, ready = float(arrays.get("few", 0.0)), self.prepared
        if few and few != ready.stage.rows:
            raise MessageError(f"site '{self.name}': sums over {few:g} people are no stage of this fit")
        return ready.first if few else ready.rows

    def _jitter_note(self, jitter: float) -> dict:
        return {"jitter": jitter} if jitter != self.prepared.model.options.jitter else {}

    def _effects(self, request: AskEffects | AskSharedEffects) -> Reply:
        ready, name, arrays = self.prepared, asked(request), arrays_of(request)
        check_asked(self.name, ready.model, name, arrays)
        vector, draws = ready.model.received(arrays)
        for jitter in ready.model.jitters:
            own = jax.device_get(ready.rows.effects(ready.model, vector, draws, request.correlations, jitter))
            if all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(own)):
                self.posterior = Posterior(vector, draws, jitter)
                return self._reply(request, self._effect_sums(own, request.correlations), **self._jitter_note(jitter))
        raise NumericalError(f"site '{self.name}': the covariance of the outcomes is not positive definite even with "
                             f"jitter {jitter:g}. Look for repeated rows, or raise model.jitter.")

    def _effect_sums(self, own: SiteEffects, correlations: np.ndarray) -> dict:
        """Per population and draw, in outcome units: Σ τ(x_i) 'cate' [L, 3], Σ τ_i 'ite' [L, C, 3]; and Σ_i sd(τ_i)
        from every eighth draw, which is enough for a mean over people and costs n³ only there."""
        s, ready, q = self.prepared.units.y_sd, self.prepared, self.posterior
        some = jax.tree.map(lambda leaf: leaf[::8], q.draws)
        spread = summed_sd(ready.model, replace(q, draws=some), ready.rows, correlations, s)
        return {"cate_mean": s * own.cate.mean, "cate_var": s**2 * own.cate.var,
                "ite_mean": s * own.ite.mean, "ite_var": s**2 * own.ite.var,
                "ite_sd": spread, "people": population_sizes(self.table.rows - self.table.treated, self.table.treated)}

    def _diagnostic(self, request: AskDiagnostic) -> Reply:
        ready, policy = self._require(self.prepared, "the common units"), self.study.policy
        if policy.epsilon is not None:
            raise DisclosureError(f"site '{self.name}': diagnostics are sums without noise, and this study promises "
                                  f"differential privacy: none are answered")
        self.diagnosed = diagnosing.admitted(self.diagnosed, request)
        here = diagnosing.Here(self.table, policy, ready.units.indicators, ready.model, ready.rows,
                                     int(ready.rows.index), ready.units.y_mean, ready.units.y_sd, self.posterior,
                                     not self.masked or policy.site_effects, self._is_silent(request.round))
        if not (self.masked and row_of(request).summed):
            return self._reply(request, diagnosing.answer(here, request))
        return self._masked_diagnostic(request, here)

    def _is_silent(self, number: int) -> bool:
        return self.silent_from is not None and number >= self.silent_from

    def _masked_diagnostic(self, request: AskDiagnostic, here: diagnosing.Here) -> Reply:
        """Once a site could not tell its part of the propensity model it stays out: a sum that changes its people on
        the way has no maximum. Asked an earlier round again, it answers as it did."""
        sums, own, withheld = diagnosing.part(here, request)
        if withheld and request.kind == "propensity" and not here.silent:
            self.silent_from = request.round
        self.sums, hidden, shares = self.sums.mask(request, sums | {JITTERED: np.zeros(())}, wide=True)
        notes = {"withheld": withheld} if withheld else {}
        return self._reply(request, {MASKED: hidden} | {OWN + name: told for name, told in own.items()},
                           shares=shares, **notes)

    @property
    def people(self) -> People:
        """The site's own people's effects; UsageError before there is a fitted model."""
        if self.posterior is None:
            raise UsageError(f"site '{self.name}' has no fitted model yet: run the study first")
        if self.own is None or self.own.q is not self.posterior:
            self.own = People(self.table, self.kept, self.prepared, self.posterior)
        return self.own

    def _require(self, value, what: str):
        if value is None:
            raise SiteError(f"site '{self.name}' was asked out of turn: it waits for {what} first")
        return value
