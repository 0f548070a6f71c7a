"""Small studies shared by the tests: few covariates, and the preset that is fastest to fit and compile."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedci import FedCI, Source, Study
from fedci.protocol.engine import InProcessEngine

COVARIATES = ("age", "bmi", "sex")
SMALL = {"model": {"knots": 3, "landmarks": 4}, "optimiser": {"rounds": 12, "draws": 4}, "prediction": {"draws": 32}}
"""Options of the preset `default`. With three covariates and 33 to 40 rows, the same shapes in every file: what one
test has compiled serves the others. 32 draws are 8 of β for each of 4 of θ, as many as a round has."""
PLANTED = {"people": 37, "twice": 3}
"""Of a rehearsal: whomever linkage leaves out, a site keeps 34 to 40 rows."""


def small(rounds: int) -> dict:
    """SMALL with so many rounds."""
    return SMALL | {"optimiser": SMALL["optimiser"] | {"rounds": rounds}}


def frame(rows: int, seed: int) -> pd.DataFrame:
    """A hospital's table with a non-linear effect of about 1.5."""
    rng = np.random.default_rng((seed, 99))
    age, bmi = rng.uniform(30, 90, rows), rng.normal(26, 4, rows)
    sex = (rng.uniform(size=rows) < 0.5).astype(int)
    sex[:2] = 0, 1
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-(age - 60) / 20))).astype(int)
    w[:2] = 0, 1
    effect = 1 + np.sin(age / 15) + 0.5 * sex
    y = 0.05 * bmi + 0.02 * age + w * effect + 0.3 * rng.normal(size=rows)
    return pd.DataFrame({"age": age, "bmi": bmi, "sex": sex, "w": w, "y": y})


ANY_NUMBER = {"numbers_per_person": 1e9}
"""Small sites tell more numbers than `standard` allows (site/test_admission.py): a test of something else lets them."""
STANDARD_OTHERWISE = {"name": "custom", **ANY_NUMBER}


def study(**changes) -> Study:
    """Without diagnostics, which have tests of their own."""
    covariates = {"age": {}, "bmi": {}, "sex": {"type": "binary"}}
    return Study(**({"treatment": "w", "outcome": "y", "covariates": covariates, "policy": "simulation",
                     "preset": "classic", "diagnostics": {"enabled": False}} | changes))


def hospitals(*sizes: int) -> list[Source]:
    return [Source(f"site-{s}", frame(n, s)) for s, n in enumerate(sizes)]


def fit(sources, seed: int = 0, preset: str | None = None, **changes):
    return FedCI(study(**changes | ({"preset": preset} if preset else {})), seed=seed).fit(sources)


def fit_sites(sources, **changes):
    """(the result, the sites as they stand after the fit)."""
    estimator = FedCI(study(**changes))
    sites = estimator.sites([source.read(estimator.study) for source in sources])
    return estimator.fit_sites(sites), sites


class Wire(InProcessEngine):
    """Keeps all that is said; `change(request, reply)` may put another reply in its place."""

    def __init__(self, sites, change=lambda request, reply: reply):
        super().__init__(sites)
        self.said, self.change = [], change

    def _ask(self, name, request):
        reply = self.change(request, super()._ask(name, request))
        self.said.append((request, reply))
        return reply


def made_result(plan: Study, tables: dict[str, pd.DataFrame], draws: int = 6, seed: int = 0):
    """A result of the model `shared` whose numbers were drawn, not fitted: whole in every part, in no time."""
    from fedci.coordinator.coordinator import CORRELATIONS, AtSite, Effects, Fit, Layout, Outcome, Round
    from fedci.model.families import model_of
    from fedci.model.shared.exchanges import BETAS
    from fedci.protocol.engine import Traffic
    from fedci.result.result import Result
    from fedci.table.design import design_columns
    from fedci.table.moments import Scales, describe, pool

    rng, options = np.random.default_rng(seed), plan.fit_options("default")
    read = {name: Source(name, table).read(plan) for name, table in sorted(tables.items())}
    columns, outcome = (pool([describe(part) for part in parts]) for parts in (
        [t.x for t in read.values()], [t.y[:, None] for t in read.values()]))
    names, kinds = design_columns(plan)
    sd = np.where(np.array(kinds) == "numeric", np.sqrt(columns.values[1]), options.model.binary_sd)
    scales = Scales(columns.values[0], sd, float(outcome.values[0, 0]), float(np.sqrt(outcome.values[1, 0])))
    model = model_of(options.model, len(names), len(names), len(read))
    u = np.zeros((len(read), 4 * (len(names) + 3)))
    layout = Layout(sites=tuple(read), model=model, scales=scales, u=u, pooled_u=u[0], indicators=np.zeros(0, int),
                    people={name: AtSite(t.rows, t.treated) for name, t in read.items()}, columns=columns,
                    withheld=np.zeros(len(names), bool))
    many, sums = draws * BETAS, {}
    for name, table in read.items():
        people = np.array([table.rows, table.treated, table.rows - table.treated])
        mean = people * (1.0 + 0.2 * rng.standard_normal((many, 1)))
        wide = np.repeat(mean[:, None], len(CORRELATIONS), axis=1)
        sums[name] = {"cate_mean": mean, "cate_var": 0.01 * people + 0 * mean, "ite_mean": wide,
                      "ite_var": 0.04 * people + 0 * wide, "ite_sd": np.full(len(CORRELATIONS), 0.5 * table.rows),
                      "people": people}
    thetas = model.prior[0] + 0.1 * rng.standard_normal((draws, model.size))
    drawn = {"thetas": thetas, "betas": 0.3 * rng.standard_normal((draws, BETAS, model.columns))}
    rounds = tuple(Round(number=k, cap=20, objective=-100.0 + 10 * (1 - 0.7**k), gradient_norm=0.7**k, seconds=0.1 * k)
                   for k in range(1, 21))
    fit = Fit(theta=np.concatenate([model.prior[0], np.zeros(model.size)]), verdict="converged",
              objective=rounds[-1].objective, rounds=rounds, jitters={})
    traffic = {name: Traffic(12345, 67890, 42) for name in read}
    outcome = Outcome(run="0123456789abcdef", seed=seed, options=options, layout=layout, fit=fit,
                      effects=Effects(draws=drawn, sums=sums), warnings=(), seconds={"fit": 2.0, "effects": 1.0})
    return Result(study=plan, outcome=outcome, people={}, traffic=traffic)
