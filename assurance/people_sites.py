"""Sites behind real doors, with ledgers, stores and signed keys: what an attacker on the coordinator's side meets.

    parties = Parties(study, {"lyon": rows, …}, folder)           each has a kit of its own and one store for ever
    heard = listened(parties)                                     a whole study, and all sums of its fit
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from gram_record import Recorded, together
from people_told import STATISTICS, Exchange, Listener, listening

from fedci import Source, Study
from fedci.coordinator.coordinator import Outcome, run_study
from fedci.privacy.agreement import Credentials
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import Message
from fedci.site.accountant import BEFORE, opened
from fedci.site.door import Door
from fedci.site.ledger import Ledger, numbers
from fedci.site.site import Site

COVARIATES = ("age", "bmi")
FEW = {"model": {"knots": 1, "directions": 0, "landmarks": 0, "exact_rows": 4000},
       "optimiser": {"rounds": 1, "draws": 1}, "prediction": {"draws": 8}}
"""As few numbers as a fit can tell: with one covariate some 200."""
MANY = {"model": {"knots": 3, "directions": 1, "landmarks": 0}, "optimiser": {"rounds": 12, "draws": 4},
        "prediction": {"draws": 8}}
NO_LIMIT: dict[str, Any] = {"name": "custom", "numbers_per_person": 1e9}
"""`standard` in all but the number of sums."""


def people(count: int, seed: int) -> pd.DataFrame:
    """Covariates and outcomes that nobody could guess from how they are written down."""
    rng = np.random.default_rng((seed, 17))
    age, bmi = rng.normal(62, 12, count), rng.normal(26, 4, count)
    w = (rng.uniform(size=count) < 1 / (1 + np.exp(-(age - 62) / 15))).astype(int)
    y = 0.05 * bmi + 0.02 * age + w * (1 + 0.02 * (age - 62)) + 0.5 * rng.normal(size=count)
    return pd.DataFrame({"age": age, "bmi": bmi, "w": w, "y": y})


def tables(sizes: tuple[int, ...], seed: int = 0) -> dict[str, pd.DataFrame]:
    return {f"site-{k}": people(count, 10 * seed + k) for k, count in enumerate(sizes)}


def planned(rows: Mapping[str, Any], **changes: Any) -> Study:
    given: dict[str, Any] = {"treatment": "w", "outcome": "y", "covariates": {name: {} for name in COVARIATES},
                             "sites": tuple(rows), "policy": "standard", "preset": "default", "options": FEW,
                             "diagnostics": {"enabled": False}}
    return Study(**(given | changes))


class Parties:
    """An engine over doors: bytes in, bytes out. Kits are made anew; a site's store lies in `stores` and stays.

    identities   of an earlier kit, where the same masks are to come out
    """

    def __init__(self, study: Study, rows: Mapping[str, pd.DataFrame], folder: Path, stores: Path | None = None,
                 identities: Mapping[str, Ed25519PrivateKey] | None = None):
        self.study, self.sites = study, tuple(sorted(rows))
        self.identities = dict(identities or {name: Ed25519PrivateKey.generate() for name in rows})
        peers = {name: key.public_key() for name, key in self.identities.items()}
        self.doors = {}
        for name, table in rows.items():
            (folder / name).mkdir(parents=True)
            ledger = Ledger(folder / name)
            account = opened((stores or folder / "stores") / name, ledger.entries)
            known = Credentials(None, self.identities[name], peers)
            self.doors[name] = Door(Site(study, Source(name, table).read(study), known, account), ledger, folder / name)

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        return {name: decode(self.doors[name].answer(encode(request))) for name, request in requests.items()}

    def site(self, name: str) -> Site:
        return self.doors[name].site

    @property
    def told(self) -> int:
        """Numbers of people's rows that left, in all ledgers."""
        return sum(map(self.told_by, self.sites))

    def told_by(self, name: str) -> int:
        return sum(numbers(entry) for entry in self.doors[name].ledger.entries
                   if entry["reply"] == "Reply" and entry["phase"] not in BEFORE)

    def close(self) -> None:
        for door in self.doors.values():
            door.ledger.close()


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a listening coordinator has of a study; the truth beside it, for scoring."""

    fit: Recorded
    """Sums of the fit, in model units; its truth has the outcomes as sums see them: with their noise."""
    outcomes: np.ndarray
    """[n] without."""
    added: tuple[float, ...]
    """Variance of that noise, of each site."""
    told: int
    result: Outcome
    listener: Listener
    """All that was told, with the first covariate unknown."""


def followed(parties: Parties) -> tuple[Outcome, Listener]:
    """The whole study, and all that was told with the first covariate unknown. FedciError where the sites refuse it."""
    kept: list[Exchange] = []
    with listening(kept):
        outcome = run_study(parties, parties.study)
    return outcome, Listener(outcome.layout.model, [_prepared(parties.site(name)) for name in parties.sites], kept, 0,
                             parties.sites, outcome.layout.scales.y_sd)


def listened(parties: Parties) -> Heard:
    """A study whose rounds tell statistics of draws."""
    outcome, listener = followed(parties)
    heard = [one for one in listener.exchanges if one.ask.name == STATISTICS]
    scales, sites = outcome.layout.scales, [parties.site(name).party for name in parties.sites]
    rows = np.vstack([np.column_stack([site.noisy.x, site.noisy.w, site.noisy.y]) for site in sites])
    centre = np.concatenate([scales.x_mean, [0.0], [scales.y_mean]])
    unit = np.concatenate([scales.x_sd, [1.0], [scales.y_sd]])
    treated, d = int(rows[:, -2].sum()), rows.shape[1] - 2
    share = treated / len(rows)
    fit = Recorded(
        model=outcome.layout.model, sizes=tuple(site.noisy.rows for site in sites), treated=treated,
        thetas=np.concatenate([np.asarray(one.ask.arrays["thetas"]) for one in heard]),
        told=together([{name: np.asarray(part) for name, part in one.total.sums.items()} for one in heard]),
        truth=(rows - centre) / unit, steps=np.full(d + 2, 1e-6), centre=np.array([*np.zeros(d), share, 0.0]),
        spread=np.array([*np.ones(d), np.sqrt(share * (1 - share)), 1.0]))
    true = np.concatenate([site.whole.y for site in sites])
    return Heard(fit=fit, outcomes=(true - scales.y_mean) / scales.y_sd, told=parties.told, result=outcome,
                 added=tuple(site.noisy.added / scales.y_sd**2 for site in sites), listener=listener)


def _prepared(site: Site) -> Any:
    """Its rows, as the fit sees them."""
    if site.run.prepared is None:
        raise RuntimeError("no fit was heard")
    return site.run.prepared.rows


@contextmanager
def met(study: Study, rows: Mapping[str, pd.DataFrame], stores: Path | None = None, **more: Any) -> Iterator[Parties]:
    """Parties in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        parties = Parties(study, rows, Path(folder), stores, **more)
        try:
            yield parties
        finally:
            parties.close()
