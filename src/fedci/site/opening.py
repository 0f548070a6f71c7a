"""What a site answers before the first sum: handshake and linkage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedci.errors import HandshakeError, SiteError
from fedci.protocol import refuting
from fedci.protocol.course import Contract
from fedci.protocol.messages import AskLinkKey, Hello, Message, Reply, Tokens
from fedci.site.following import Course
from fedci.site.limits import check_floors, check_memory, check_noise, check_rounds
from fedci.site.linking import begin_linkage
from fedci.site.run import Party, Run, after_linkage, reply_to, required, with_rows
from fedci.table import small_cells
from fedci.table.dependence import COINCIDE, IS_CONSTANT, NO_VALUE
from fedci.table.roles import ONE_OUTCOME
from fedci.table.table import Table
from fedci.table.values import told_of
from fedci.version import __version__


def hello(party: Party, run: Run, request: Hello) -> tuple[Run, Reply]:
    """All that the study says is the study's; a coordinator chooses no seed, no option and no cohort."""
    for what, ours, theirs in (("version of fedci", __version__, request.version),
                               ("study", party.agreed.hash(), request.study_hash)):
        if ours != theirs:
            raise HandshakeError(f"site '{party.name}': the {what} differs: {ours} here, {theirs} at the coordinator")
    refuting.check_wanted(party.agreed, party.name, request.refuter)
    contract = Contract(party.agreed, _cohort(party, request), request.refuter)
    run = _with_refuter(party, _begun(party, run, request.run, contract), request.refuter)
    with told_of(f"site '{party.name}'"):
        check_floors(party.agreed)
        check_rounds(party.agreed, contract.options)
        check_noise(party.agreed)
    check_memory(party.name, run.table.rows, run.table.x.shape[1], contract.options, run.study.outcome_type,
                 run.study.most_intervals, run.study.arm_count)
    return run, reply_to(request, {}, warnings=_words(run))


def _words(run: Run) -> list[str]:
    """The warnings about the data, none of which changes with fewer than min_cell people."""
    table, least = run.table, run.study.policy.min_cell
    flat = [name for name, varies in zip(table.columns, small_cells.varies(table.x, least), strict=True) if not varies]
    more = [f"site '{table.site}': column '{name}' hardly varies here" for name in flat] if least else []
    return _without_few(run, table.warnings) + more + _lacking(run) + _dropped(table, least)


def _lacking(run: Run) -> list[str]:
    """Columns of which the site has no value at all, where what is missing is drawn; or where the policy hides small
    cells, of few people."""
    table, least = run.table, run.study.policy.min_cell
    known = (~np.isnan(table.x)).sum(0)
    names = [name for name, people in zip(table.columns, known, strict=True) if people < max(least, 1)]
    said = "hardly a value" if least else "no value"
    return [f"site '{table.site}': column '{name}' has {said} here: all of it is drawn by what other sites' people "
            f"tell of it" for name in names] if run.study.completes else []


def _dropped(table: Table, least: int) -> list[str]:
    """How many rows the study leaves out for what they lack; where the policy hides small cells no number of them: the
    accountant has not looked yet, and the counts of two studies could differ by one person. (The diagnostic of
    missingness tells it, later.)"""
    told = "" if least else table.dropped.in_words()
    return [f"site '{table.site}': left out as the study says: {told}"] if told else []


def _without_few(run: Run, warnings: Sequence[str]) -> list[str]:
    """Without those that a single person could change, but where the policy hides no small cells; and without what
    `_lacking` says at more length."""
    few = (IS_CONSTANT, COINCIDE, NO_VALUE, ONE_OUTCOME, small_cells.MERGED) if run.study.policy.min_cell > 0 else ()
    return [words for words in warnings if not words.endswith((*few, *([NO_VALUE] if run.study.completes else [])))]


def _cohort(party: Party, request: Hello) -> tuple[str, ...]:
    """The study's sites (or, where it names none, those whose identities the site's kit has), all of them; where the
    study has a quorum, at least so many."""
    cohort, study = tuple(sorted(request.sites)), party.agreed
    for site in cohort:
        study.check_site(site)
    named = set(study.sites or party.credentials.peers)
    least = len(named) if study.quorum is None else study.quorum
    if party.name not in cohort or len(cohort) < least or (named and not named.issuperset(cohort)):
        raise HandshakeError(f"site '{party.name}': the cohort that the coordinator names has {len(cohort)} sites, and "
                             f"the study is of {least} at least, this one among them: a sum over others would tell "
                             f"their difference. Nothing was answered")
    return cohort


def _begun(party: Party, run: Run, name: str, contract: Contract) -> Run:
    """Under another name, or in another cohort, nothing that was agreed before holds."""
    if name == run.name and run.course is not None and run.course.contract == contract:
        return run
    if name == run.name and run.course is not None and run.course.places:
        raise HandshakeError(f"site '{party.name}': this run was begun with other sites, and sums over both cohorts "
                             f"would tell their difference. Start a new run")
    earlier = {} if run.name else run.earlier
    return replace(run, name=name, sums=None, prepared=None, earlier=earlier, admitted=False,
                   course=Course(party.name, contract, earlier=earlier))


def _with_refuter(party: Party, run: Run, refuter: str) -> Run:
    """The study and the rows of this run: the site's own, or a refuter's."""
    if refuter == run.refuter:
        return run
    run = replace(run, refuter=refuter, study=refuting.plan(party.agreed, refuter))
    return with_rows(party, run, party.noisy.take(run.linked))


def link(party: Party, run: Run, request: Message) -> tuple[Run, Reply | Tokens]:
    """Linkage, and after its last request the table without the people who stay elsewhere."""
    required(party.name, run.course, "a handshake")
    if not run.study.links or run.described:
        raise SiteError(f"site '{party.name}' was asked out of turn: linkage comes before the first sums, in a study "
                        f"with ids")
    linkage = run.linkage
    if isinstance(request, AskLinkKey) and (linkage is None or linkage.run != request.run):
        linkage = begin_linkage(run.study, party.whole, request.run, party.credentials, party.secret)
    linkage, answer = required(party.name, linkage, "a linkage").answered(request)
    run = replace(run, linkage=linkage)
    if linkage.staying is None or not isinstance(answer, Reply):
        return run, answer
    run = after_linkage(party, run, linkage.staying)
    warnings = _without_few(run, run.table.warnings[len(party.whole.warnings):])
    return run, replace(answer, notes=answer.notes | {"warnings": warnings})
