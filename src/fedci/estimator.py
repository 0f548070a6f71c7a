"""`FedCI(study).fit(sources)`: the whole federated study in one process, in the manner of EconML."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path

from fedci.coordinator.checkpoint import Mark, link_again, load
from fedci.coordinator.coordinator import Round, run_study
from fedci.coordinator.refits import refuted
from fedci.errors import StudyError, UsageError
from fedci.privacy.agreement import Credentials
from fedci.protocol.engine import InProcessEngine
from fedci.protocol.trajectory import resumed
from fedci.result.result import Result
from fedci.site.site import Site
from fedci.study.options import FitOptions
from fedci.study.study import Study
from fedci.table.table import Source


class FedCI:
    """Federated causal inference with Gaussian processes.

    study      column roles, disclosure policy and, optionally, changes to the preset
    preset     'default' (chosen by measurement) or 'paper' (the authors' settings); None: the study's own
    seed       makes a run reproducible bit for bit; None: the study's own
    """

    def __init__(self, study: Study, preset: str | None = None, seed: int | None = None):
        self.study = study
        self.options: FitOptions = study.fit_options(preset)
        self.seed = study.seed if seed is None else seed

    def fit(self, sources: Iterable[Source], progress: Callable[[Round], None] | None = None,
            checkpoint: Path | None = None) -> Result:
        """Fit all sources together. Each stays behind its own `Site`; only messages pass between them.

        One source that holds all rows is the combined analysis: the same code, one site.
        progress     told of every round; its method `watch`, if it has one, of every question to a site
        checkpoint   a file from which an interrupted fit of the same sources goes on to the same bits
        """
        sources = _checked(list(sources))
        tables = [source.read(self.study) for source in sources]
        secret = hashlib.sha256(f"{self.study.hash()} {self.seed}".encode()).digest()
        # All parties are this process, with nothing to hide from itself: linkage, masks and noise follow from the seed.
        own = {table.site: hashlib.sha256(secret + table.site.encode()).digest() for table in tables}
        sites = {table.site: Site(self.study, table, Credentials(key=secret, secret=own[table.site]))
                 for table in tables}
        engine = InProcessEngine(sites, watch=getattr(progress, "watch", lambda *_: None))
        kept = load(checkpoint, Mark(self.study.hash(), self.seed, engine.sites), "")
        for site in sites.values():  # they start anew with the coordinator, and stand where it stood
            site.earlier = {kept.fit_round + 1: resumed(kept.state)} if kept.state is not None else {}
        if self.study.links:
            link_again(checkpoint, Mark(self.study.hash(), self.seed, engine.sites))
        outcome = run_study(engine, self.study, self.options, self.seed, progress, link_secret=secret,
                            checkpoint=checkpoint)
        again = replace(engine, local={name: copy(site) for name, site in sites.items()})  # the study's own stay fitted
        outcome = refuted(again, self.study, outcome, progress, checkpoint)
        return Result(self.study, outcome, sites, engine.traffic)


def _checked(sources: list[Source]) -> list[Source]:
    if not sources:
        raise UsageError("no source was given: pass a list such as [Source('a', 'a.csv'), Source('b', frame)]")
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise StudyError(f"the site '{name}' is given twice; each site takes part once, under its own name")
    return sources
