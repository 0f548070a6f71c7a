"""What a site answers before the fit: handshake, linkage, moments, the common units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedci.effect import population_sizes
from fedci.errors import DisclosureError, HandshakeError, MessageError, SiteError
from fedci.model.families import model_of
from fedci.model.family import Family, FirstStage, Rules
from fedci.protocol import refuting, stages
from fedci.protocol.messages import AskLinkKey, AskMoments, Hello, Message, Prepare, Reply, Tokens
from fedci.site.course import Course
from fedci.site.limits import (
    check_memory,
    check_options,
    check_statistics,
    check_unchanged,
    check_units,
    first_stage,
)
from fedci.site.linking import begin_linkage
from fedci.site.noising import site_noise
from fedci.site.prepared import Prepared, Units
from fedci.site.run import Party, Run, after_linkage, reply_to, required, with_rows
from fedci.study.options import FitOptions, validated
from fedci.study.policy import SECURE_SUM_SITES
from fedci.table.moments import describe_site
from fedci.table.table import id_records
from fedci.version import __version__


def hello(party: Party, run: Run, request: Hello) -> tuple[Run, Reply]:
    for what, ours, theirs in (("version of fedci", __version__, request.version),
                               ("study", party.agreed.hash(), request.study_hash)):
        if ours != theirs:
            raise HandshakeError(f"site '{party.name}': the {what} differs: {ours} here, {theirs} at the coordinator")
    options = validated(FitOptions, request.options, where="options sent by the coordinator")
    run = replace(_named(run, request.run), options=options, seed=request.seed)
    run = _with_refuter(party, run, request.refuter)
    check_options(party.name, party.agreed, options, run.refuter)
    check_memory(run.table, options)
    return run, reply_to(request, {}, warnings=list(party.whole.warnings))


def _named(run: Run, name: str) -> Run:
    """Under another name nothing that was agreed for the fit before holds."""
    if name == run.name:
        return run
    return replace(run, name=name, sums=None, course=None, evaluations=frozenset(), preparation=None, silent_from=None)


def _with_refuter(party: Party, run: Run, refuter: str) -> Run:
    """The study and the rows of this run: the site's own, or a refuter's."""
    refuting.check_wanted(party.agreed, party.name, refuter)
    if refuter == run.refuter:
        return run
    run = replace(run, refuter=refuter, study=refuting.plan(party.agreed, refuter))
    return with_rows(party, run, party.whole.take(run.linked))


def link(party: Party, run: Run, request: Message) -> tuple[Run, Reply | Tokens]:
    """Linkage, and after its last request the table without the people who stay elsewhere."""
    required(party.name, run.options, "a handshake")
    if not run.study.links or run.described:
        raise SiteError(f"site '{party.name}' was asked out of turn: linkage comes before the moments, in a study "
                        f"with ids")
    linkage = run.linkage
    if isinstance(request, AskLinkKey) and (linkage is None or linkage.run != request.run):
        linkage = begin_linkage(run.study, party.whole, request.run, party.credentials)
    linkage, answer = required(party.name, linkage, "a linkage").answered(request)
    run = replace(run, linkage=linkage)
    if linkage.kept is None or not isinstance(answer, Reply):
        return run, answer
    run = after_linkage(party, run, linkage.kept)
    warnings = list(run.table.warnings[len(party.whole.warnings):])
    return run, replace(answer, notes=answer.notes | {"warnings": warnings})


def moments(party: Party, run: Run, request: AskMoments) -> tuple[Run, Reply]:
    options = required(party.name, run.options, "a handshake")
    t, policy = run.table, run.study.policy
    if party.releases is not None and policy.min_difference:
        party.releases.admit(party.name, _people(party, run), t.w, policy.min_difference, policy.min_cell)
    noise = site_noise(run.study, options, t, party.secret)
    own = (noise.moments(t) if noise is not None and policy.noises("moments")
           else describe_site(t.x, t.w, t.y, t.kinds, policy))
    counts = population_sizes(own.rows - own.treated, own.treated)
    return replace(run, described=True, counts=counts), reply_to(request, {
        "x": own.x.values, "x_count": own.x.count, "suppressed": own.suppressed, "incomplete": own.incomplete,
        "y0": own.y[0].values, "y0_count": own.y[0].count, "y1": own.y[1].values, "y1_count": own.y[1].count,
        "w": own.w.values, "w_count": own.w.count})


def _people(party: Party, run: Run) -> list[bytes]:
    """What identifies each person here: the ids, or else the row."""
    if party.agreed.ids:
        everybody = id_records(party.agreed, party.whole)
        return [everybody[row] for row in run.rows]
    t = party.whole.take(run.rows)
    return [row.tobytes() for row in np.column_stack([t.x, t.w, t.y]).astype(float)]


def prepare(party: Party, run: Run, request: Prepare) -> tuple[Run, Reply]:
    options = required(party.name, run.options, "a handshake")
    _check_secured(party.name, run, request)
    units = Units(request.x_mean, request.x_sd, request.y_mean, request.y_sd, request.indicators)
    if run.study.policy.check_trajectory:
        check_unchanged(party.name, run.preparation, request)
        check_units(run.table, run.study, options, units, request.people)
    prepared = _prepared(party.name, run, options, units, request)
    run = replace(run, prepared=prepared, preparation=request)
    if run.study.policy.check_trajectory:
        run = replace(run, course=_course(party.name, run, options, request))
    return run, reply_to(request, {})


def _prepared(site: str, run: Run, options: FitOptions, units: Units, request: Prepare) -> Prepared:
    """The rows in these units, and those that a first stage looks at."""
    x, w, y = units.covariates(run.table.x), run.table.w, units.outcome(run.table.y)
    model = model_of(options.model, x.shape[1], run.table.x.shape[1], request.sites)
    stage = first_stage(site, options, request)
    arms = run.table.treated, run.table.rows - run.table.treated
    fewest = sum(stages.some_of(n, stage.rows) for n in arms) if stage.rows else len(w)
    check_statistics(run.study, site, fewest, model, len(run.sums.cohort) if run.sums and run.masked else 1)
    rows = model.rows(x, w, y, request.u, request.index)
    first = model.rows_of_stage(rows, stages.chosen(w, stage.rows), x, w, y) if stage.rows else None
    return Prepared(model, units, rows, stage, first)


def _course(site: str, run: Run, options: FitOptions, request: Prepare) -> Course:
    """Asked again, it still knows where the fit stood."""
    prepared = required(site, run.prepared, "the common units")
    places = run.course.places if run.course else {}
    rules = _rules(site, options, run.seed, request, prepared.model, prepared.stage)
    course = Course(site, rules, request.index, places)
    return course if places else course.restored(run.earlier)


def _rules(site: str, options: FitOptions, seed: int, request: Prepare, model: Family, stage: FirstStage) -> Rules:
    shape = (request.sites, len(request.u))
    if not model.needs_moments:
        return Rules(model, options, seed, np.zeros(shape), request.people, stage)
    if request.all_u.shape != shape or not np.array_equal(request.all_u[request.index], request.u):
        raise MessageError(f"site '{site}': the moments of all sites are missing, and it cannot follow the fit "
                           f"without them")
    return Rules(model, options, seed, request.all_u, request.people)


def _check_secured(site: str, run: Run, request: Prepare) -> None:
    """A coordinator may not talk a site out of its masks by saying that there are but two sites."""
    if run.study.policy.secures(max(request.sites, len(run.study.sites))) and not run.masked:
        raise DisclosureError(f"site '{site}': the policy asks for secure sums, and no keys were agreed. At least "
                              f"{SECURE_SUM_SITES} sites must take part")
    if run.sums and run.masked and request.sites != len(run.sums.cohort):
        raise DisclosureError(f"site '{site}': the sums are over {len(run.sums.cohort)} sites and the model is of "
                              f"{request.sites}")
