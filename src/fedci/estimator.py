"""`FedCI(study).fit(sources)`: the whole federated study in one process, in the manner of EconML."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from fedci.coordinator.checkpoint import Mark, link_again, load
from fedci.coordinator.coordinator import Round, run_study
from fedci.coordinator.refits import refuted
from fedci.errors import StudyError, UsageError
from fedci.privacy.agreement import Credentials
from fedci.protocol.course import resumed
from fedci.protocol.engine import InProcessEngine
from fedci.result.result import Result
from fedci.site.site import Site
from fedci.study.study import Study
from fedci.table.table import Source, Table


class FedCI:
    """Federated causal inference with Gaussian processes.

    study      column roles, disclosure policy and, optionally, changes to the preset
    preset     'default' (chosen by measurement), 'classic' or 'paper' (the authors' settings); None: the study's own
    seed       makes a run reproducible bit for bit; None: the study's own
    """

    def __init__(self, study: Study, preset: str | None = None, seed: int | None = None):
        changes = {"preset": preset, "seed": seed}
        self.study = study.changed(**{name: value for name, value in changes.items() if value is not None})
        self.study.fit_options()  # a preset that the study cannot have is told at once

    def fit(self, sources: Iterable[Source], progress: Callable[[Round], None] | None = None,
            checkpoint: Path | None = None) -> Result:
        """Fit all sources together. Each stays behind its own `Site`; only messages pass between them.

        One source that holds all rows is the combined analysis: the same code, one site.
        progress     told of every round; its method `watch`, if it has one, of every question to a site
        checkpoint   a file from which an interrupted fit of the same sources goes on to the same bits
        """
        sources = list(sources)
        _check_names([source.name for source in sources])
        return self.fit_tables([source.read(self.study) for source in sources], progress, checkpoint)

    def fit_tables(self, tables: Sequence[Table], progress: Callable[[Round], None] | None = None,
                   checkpoint: Path | None = None) -> Result:
        """`fit` of tables that were read for this study: each is read once, and what was looked at is what is fitted.
        """
        _check_names([table.site for table in tables])
        return self.fit_sites(self.sites(tables), progress, checkpoint)

    def sites(self, tables: Sequence[Table]) -> dict[str, Site]:
        """The parties that own the tables. All are this process, with nothing to hide from itself: linkage, masks and
        noise follow from the seed."""
        secrets = {table.site: hashlib.sha256(self._secret + table.site.encode()).digest() for table in tables}
        study = self._of([table.site for table in tables])
        return {table.site: Site(study, table, Credentials(key=self._secret, secret=secrets[table.site]))
                for table in tables}

    def _of(self, sites: Sequence[str]) -> Study:
        """The study with these sites as its cohort, unless it names its own: sites answer no other."""
        return self.study if self.study.sites else self.study.changed(sites=tuple(sorted(sites)))

    def fit_sites(self, sites: Mapping[str, Site], progress: Callable[[Round], None] | None = None,
                  checkpoint: Path | None = None) -> Result:
        """The study over parties in this process; refuters change their rows in the end, the result's people stay."""
        engine = InProcessEngine(sites, watch=getattr(progress, "watch", lambda *_: None))
        study = self._of(list(sites))
        self._go_on(study, sites, checkpoint)
        outcome = run_study(engine, study, progress, link_secret=self._secret, checkpoint=checkpoint)
        people = {name: site.people for name, site in sites.items()}
        outcome = refuted(engine, study, outcome, progress, checkpoint)
        return Result(study=self.study, outcome=outcome, people=people, traffic=engine.traffic)

    @property
    def _secret(self) -> bytes:
        return hashlib.sha256(f"{self.study.hash()} {self.study.seed}".encode()).digest()

    def _go_on(self, study: Study, sites: Mapping[str, Site], checkpoint: Path | None) -> None:
        """Sites start anew with the coordinator, and stand where it stood."""
        mark = Mark(study.hash(), tuple(sorted(sites)))
        standing = load(checkpoint, mark, "")
        places = {} if standing.state is None else {standing.fit_round + 1: resumed(standing.state)}
        for site in sites.values():
            site.restore_places(places)
        if self.study.links:
            link_again(checkpoint, mark)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise UsageError("no source was given: pass a list such as [Source('a', 'a.csv'), Source('b', frame)]")
    for name in names:
        if names.count(name) > 1:
            raise StudyError(f"the site '{name}' is given twice; each site takes part once, under its own name")
