"""Sites of a study behind their real doors, with ledgers, signed keys and memories of what was told: what an attacker
on the coordinator's side meets."""

from pathlib import Path

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedci import Source, Study
from fedci.privacy.agreement import Credentials
from fedci.protocol.codec import decode, encode
from fedci.site.door import Door
from fedci.site.ledger import Ledger
from fedci.site.site import Site
from tests_support import STANDARD_OTHERWISE

NAMES = ("lyon", "oslo", "turin")


def people(rows: int, seed: int) -> pd.DataFrame:
    """Patients with integer ages, a bmi to a tenth, two traits; treatment by age."""
    rng = np.random.default_rng((seed, 7))
    age, bmi = np.clip(np.rint(rng.normal(62, 12, rows)), 20, 95), np.round(rng.normal(26, 4, rows), 1)
    sex, smoker = rng.integers(0, 2, rows), (rng.uniform(size=rows) < 0.4).astype(int)
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-(age - 62) / 15))).astype(int)
    y = np.round(0.05 * bmi + 0.02 * age + w * (1 + 0.5 * sex) + 0.5 * rng.normal(size=rows), 2)
    return pd.DataFrame({"age": age, "bmi": bmi, "sex": sex, "smoker": smoker, "w": w, "y": y})


def plan(names=NAMES, **changes) -> Study:
    covariates = {"age": {}, "bmi": {}, "sex": {"type": "binary"}, "smoker": {"type": "binary"}}
    return Study(**({"treatment": "w", "outcome": "y", "covariates": covariates, "sites": names,
                     "policy": STANDARD_OTHERWISE,
                     "options": {"model": {"landmarks": 4}, "optimiser": {"rounds": 2, "draws": 2},
                                 "prediction": {"draws": 16}}} | changes))


class Doors:
    """An engine over real doors: bytes in, bytes out. `only`: whom its coordinator asks."""

    def __init__(self, study: Study, tables: dict[str, pd.DataFrame], folder: Path):
        keys = {name: Ed25519PrivateKey.generate() for name in tables}
        peers = {name: key.public_key() for name, key in keys.items()}
        self.doors, self.sites = {}, tuple(sorted(tables))
        self.study, self.credentials = study, {name: Credentials(None, key, peers) for name, key in keys.items()}
        for name, table in tables.items():
            own = folder / name
            own.mkdir(parents=True, exist_ok=True)
            self.doors[name] = Door(self.site(name, table), Ledger(own), own)

    def site(self, name: str, table: pd.DataFrame) -> Site:
        """The site with these rows and its own identity."""
        return Site(self.study, Source(name, table).read(self.study), self.credentials[name])

    def exchange(self, requests):
        return {name: decode(self.doors[name].answer(encode(request))) for name, request in requests.items()}

    def close(self):
        for door in self.doors.values():
            door.ledger.close()
