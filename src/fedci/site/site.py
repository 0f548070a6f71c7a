"""A site: owns its rows, answers typed requests with sums, and makes its own people's effects locally.

    Hello → (linkage) → (keys of the secure sums) → Step … Step

`answer` is the one door: whatever leaves the site leaves through it. Where the site stands is one frozen `run`, and an
answer is a step from it to the next; a refusal is none, but that the course goes on past a diagnostic.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedci.errors import FedciError, SiteError, UsageError
from fedci.privacy.agreement import Credentials
from fedci.protocol.messages import AskLinkKey, Hello, Message, OpenSum, Refusal, Reply, Step, Tokens
from fedci.protocol.requests import row_of
from fedci.site import opening, outcome_noise, summing
from fedci.site.accountant import BEFORE, Accountant
from fedci.site.masking import site_secret
from fedci.site.people import People, lines_of
from fedci.site.run import Party, Run, admitted, after_linkage, begun, first_run, linkage_admitted
from fedci.study.study import Study
from fedci.table.table import Table

Handler = Callable[[Party, Run, Any], tuple[Run, Reply | Tokens]]
BY_TYPE: Mapping[type[Message], Handler] = {
    Hello: opening.hello, OpenSum: summing.keys, Step: summing.step}
BY_PHASE: Mapping[str, Handler] = {"linkage": opening.link, "keys": summing.keys}
"""Of the requests that have no handler of their own."""


def _noisy(study: Study, table: Table, secret: bytes, accountant: Accountant | None) -> Table:
    """By the store's secret, the same in every kit; in one process, which hides nothing from itself, by the run's."""
    if accountant is None:
        return outcome_noise.noisy(table, study, secret, lambda column, sd: sd)
    return outcome_noise.noisy(table, study, accountant.secret("outcome noise"), accountant.scale)


class Site:
    """One party of a study. Its table never leaves; `answer` sends sums."""

    def __init__(self, study: Study, table: Table, credentials: Credentials | None = None,
                 accountant: Accountant | None = None):
        credentials = credentials or Credentials()
        secret = site_secret(credentials)
        noise = secret if accountant is None else accountant.secret("noise on sums")
        self.party = Party(name=table.site, agreed=study, whole=table, noisy=_noisy(study, table, secret, accountant),
                           credentials=credentials, secret=secret, noise_secret=noise, accountant=accountant)
        self.run = first_run(self.party)
        self._people: People | None = None

    @property
    def name(self) -> str:
        return self.party.name

    def answer(self, request: Message) -> Reply | Tokens | Refusal:
        """The reply to one request; an error becomes a Refusal with its code and reason, never a traceback."""
        try:
            run, reply = self.answered(self.run, request)
            self.run = self.admitted(run, request)
        except FedciError as problem:
            self.run = self.passed(request)
            return Refusal(request.run, request.round, self.name, problem.code, str(problem))
        return reply

    def answered(self, run: Run, request: Message) -> tuple[Run, Reply | Tokens]:
        """(the run after this request, the reply); an error where the site does not answer. Nothing is changed."""
        if request.site != self.name:
            raise SiteError(f"site '{self.name}' got a request meant for another site")
        handler = BY_TYPE.get(type(request)) or BY_PHASE.get(row_of(request).phase)
        if handler is None:
            raise SiteError(f"site '{self.name}' does not answer a {type(request).__name__}")
        return handler(self.party, run, request)

    def passed(self, request: Message) -> Run:
        """The run after a request that was refused. Where a study can do without the answer, its course goes on here as
        at the other sites: the next step could not be followed from where this site stood before."""
        if request.site != self.name or not isinstance(request, Step) or not row_of(request).optional:
            return self.run
        try:
            return summing.passed(self.party, self.run, request)
        except FedciError:
            return self.run

    def admitted(self, run: Run, request: Message) -> Run:
        """The run whose people the site's accountant lets be told of, by the answer to this request, and remembers: the
        last step before it leaves. DisclosureError where it does not."""
        if isinstance(request, AskLinkKey):
            linkage_admitted(self.party, run)
        return run if row_of(request).phase in BEFORE else admitted(self.party, run)

    def begun(self, refuter: str) -> Run:
        """A run of which nothing was asked yet."""
        return begun(self.party, self.run, refuter)

    def beside(self) -> Site:
        """The same party where it stands, for another run at the same time: what is asked there moves nothing here."""
        return copy.copy(self)

    # --- after a restart, from the site's own disk

    def restore_linkage(self, linked: np.ndarray) -> None:
        self.run = after_linkage(self.party, self.run, linked)

    def restore_places(self, packed: Mapping[int, Mapping[str, np.ndarray]]) -> None:
        """Where the fit stood, by round; used once the steps before it were walked again."""
        self.run = self.run.with_earlier(packed)

    @property
    def people(self) -> People:
        """The site's own people's effects; UsageError before there is a fitted model."""
        run = self.run
        if run.posterior is None or run.prepared is None:
            raise UsageError(f"site '{self.name}' has no fitted model yet: run the study first")
        if self._people is None or self._people.q is not run.posterior:
            self._people = People(run.table, lines_of(run.table, run.rows), run.prepared, run.posterior)
        return self._people
