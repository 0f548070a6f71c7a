"""Studies with noise on their sums, attacked as studies: lies, more studies, more jobs, repetition, membership.

    python assurance/noised_studies.py ROW [--quick]        a row of `make assurance`

Sites are real, behind doors, as small as `standard` lets them take part. A *control* is the same attack with a
protection taken away: there it must succeed, or it shows nothing elsewhere.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import noised_doors
import numpy as np
import pandas as pd
from noised_doors import Heard, owed, squares_owed
from noised_sums import (
    LITTLE,
    OF_ARMS,
    SUM_NOISE,
    WORKS_WITH,
    Material,
    People,
    admitted,
    columns,
    from_doors,
    material,
    sums,
    told_row,
)
from people import Liar, _cohort, _false_sum, _job, _renamed, _silent, _tried
from people_sites import Parties, met

from fedci import Study
from fedci.coordinator.coordinator import run_study
from fedci.model.shared import sum_noise
from fedci.model.shared.dictionary import Point
from fedci.privacy.agreement import witness_key
from fedci.privacy.tokens import witnesses
from fedci.protocol.messages import AskLinkKey, AskTokens, Exclude, Message, Reply, Step, Tokens
from fedci.site.noising import FARTHEST

TWO: dict[str, Any] = {"a": {}, "b": {}}
QUICK = {"prediction": {"draws": 8}}
LARGE = (400, 800)
"""Treated and untreated of a site of a study of two covariates: some more than `standard` asks for."""
OF_ALL = (400, 1200)
"""The same of all covariates."""
Row = dict[str, Any]
Lie = Callable[[Message], Message | None]


def planned(rows: Mapping[str, Any], **changes: Any) -> Study:
    return noised_doors.planned(tuple(rows), **({"covariates": TWO, "options": QUICK} | changes))


# --- a coordinator that lies


def lies(steps: Sequence[str]) -> dict[str, Lie]:
    """All that it can say otherwise, to all or to one site alone."""
    found: dict[str, Lie] = {"a smaller cohort": _cohort}
    for at in steps:
        found[f"a false sum before {at}"] = _false_sum(at)
        found[f"a false sum to one site before {at}"] = _to_one(_false_sum(at))
        found[f"a point of its own with {at}"] = _to_one(_points(at))
        found[f"silence at {at}"] = _silent(at)
        found |= {f"{to} instead of {at}": _renamed(at, to) for to in steps if to != at}
    return found


def _to_one(lie: Lie) -> Lie:
    return lambda request: lie(request) if request.site == "site-0" else request


def _points(at: str) -> Lie:
    """Other units, another θ̂, beside the sum."""
    own = {"point": np.ones(3), "x_sd": np.full(2, 1e-6), "thetas": np.ones((1, 3))}
    return lambda request: replace(request, previous={**own, **request.previous}) if isinstance(
        request, Step) and request.name == at else request


class Again(Liar):
    """Asks a step several times over, to average what comes."""

    def __init__(self, parties: Parties, at: str, times: int = 5):
        super().__init__(parties, lambda request: request)
        self.at, self.times = at, times

    def exchange(self, requests: dict[str, Message]) -> dict[str, Message]:
        found = super().exchange(requests)
        asked = next(iter(requests.values()))
        if isinstance(asked, Step) and asked.name == self.at:
            for more in range(1, self.times + 1):
                super().exchange({name: replace(one, round=one.round + more) for name, one in requests.items()})
        return found


def of_lies(quick: bool) -> Row:
    """What counts are numbers, under a site's mask or opened, that are not those of the honest course, byte for byte.
    (Masks are another's with any other request, and then stay closed.)"""
    rows = noised_doors.tables(*LARGE)
    study = planned(rows)
    with tempfile.TemporaryDirectory() as stores, met(study, rows, Path(stores)) as parties:
        honest = Liar(parties, lambda request: request)
        known = numbers_of(honest, study)
        steps = list(dict.fromkeys(r.name for r, _ in honest.answers if isinstance(r, Step)))
        makers: dict[str, Callable[[Parties], Liar]] = {
            name: lambda asked, lie=lie: Liar(asked, lie) for name, lie in lies(steps).items()}
        makers |= {f"{at} asked six times": lambda asked, at=at: Again(asked, at) for at in steps}
        makers = dict(list(makers.items())[::4]) if quick else makers
        answers = foreign = 0
        for maker in makers.values():
            with met(study, rows, Path(stores), identities=parties.identities) as asked:
                liar = maker(asked)
                foreign += len(numbers_of(liar, study) - known)
                answers += len(liar.answers)
    return {"tries": answers, "recovered": foreign,
            "note": f"{len(makers)} lies in a study of {len(steps)} steps: sums, points and units of its own, to all "
                    f"or one site, steps swapped, asked again, left out; answers with numbers that the honest course "
                    f"does not have: {foreign}"}


def numbers_of(engine: Any, study: Study) -> set[tuple[str, str, str, bytes]]:
    """(site, or "" of all, step, name, bytes) of every part that a site masked and of every sum that was opened."""
    totals: dict[str, Any] = {}
    own: dict[tuple[str, str], Any] = {}
    with noised_doors.recording(totals, own):
        _tried(lambda: run_study(engine, study, run="run"))
    every = {("", step): total.sums for step, (_, total) in totals.items()} | own
    return {(site, step, name, np.asarray(part).tobytes()) for (site, step), parts in every.items()
            for name, part in parts.items()}


# --- more studies


def of_more_studies(quick: bool) -> Row:
    """After a study under `standard` another of the same people: one patient more, other columns, seed, options, a new
    kit. Numbers that were not told before count."""
    rows, more = noised_doors.tables(*LARGE), noised_doors.tables(*LARGE)
    more["site-0"] = pd.concat([more["site-0"], somebody()], ignore_index=True)
    ways: dict[str, tuple[Mapping[str, Any], dict[str, Any]]] = {
        "one patient more": (more, {}), "and another seed": (more, {"seed": 1}), "another seed": (rows, {"seed": 1}),
        "one column less": (rows, {"covariates": {"a": {}}}), "a column more": (rows, {"covariates": TWO | {"l": {}}}),
        "other options": (rows, {"options": {"prediction": {"draws": 16}}}), "the same, a new kit": (rows, {})}
    with tempfile.TemporaryDirectory() as stores:
        with met(planned(rows), rows, Path(stores)) as parties:
            known = told_parts(parties)
        new, words = 0, []
        for name, (table, way) in ways.items():
            with met(planned(table, **way), table, Path(stores)) as parties:
                parts = told_parts(parties)
            others = len(parts - known)
            new += others > 0
            words.append(f"{name}: {'refused' if not parts else 'the same numbers' if not others else 'NEW NUMBERS'}")
    return {"tries": len(ways), "recovered": new, "note": "; ".join(words)}


def somebody() -> pd.DataFrame:
    """One patient, who stands nowhere special."""
    return noised_doors.table(2, 1, 999).iloc[1:2]


def told_parts(parties: Parties) -> set[tuple[str, str, str, bytes]]:
    """Of sites, after the flags of which columns they may tell of."""
    return {one for one in numbers_of(parties, parties.study) if one[0] and one[1] != "AskColumns"}


def of_difference(quick: bool) -> Row:
    """Control: no noise and no accountant, one patient more: the difference of the sums is the row."""
    rows, more = noised_doors.tables(*LARGE), noised_doors.tables(*LARGE)
    person = somebody()
    more["site-0"] = pd.concat([more["site-0"], person], ignore_index=True)
    found, policy = [], {"name": "simulation", "secure_sum": "auto", "sum_noise": LITTLE}
    for table in (rows, more):
        with met(planned(table, policy=policy), table) as parties:
            totals = noised_doors.overheard(parties).totals["AskMeans"][1].sums
        found.append(np.append(totals["total"], totals["y_total"].sum()))
    away = np.abs(found[1] - found[0] - person[["a", "b", "y"]].to_numpy()[0])
    return {"tries": 1, "recovered": int(away.max() > 0.01),
            "note": f"no noise, no accountant, one patient more: the whole row to {away.max():.0e}"}


def of_repetition(quick: bool) -> Row:
    """The same study again and again, each time with new kits: what averages of what was told come to."""
    times, rows = 3 if quick else 10, noised_doors.tables(*OF_ALL)
    found = repeated(rows, times, keep=True)
    differ = int((np.ptp(found, 0) > 1e-6).sum())  # masks round to less
    return {"tries": found.size, "recovered": differ,
            "note": f"{times} times {found.shape[1]} numbers: {differ} differ; off by {rms(found[:1]):.2f} of the "
                    f"noise once, {rms(found):.2f} on average over all"}


def of_lost_stores(quick: bool) -> Row:
    """Control: each time with a new store, and so noise of its own."""
    times, rows = 4 if quick else 10, noised_doors.tables(*OF_ALL)
    found = repeated(rows, times, keep=False)
    return {"tries": 1, "recovered": int(rms(found) > 1.3 * rms(found[:1]) / times**0.5),
            "note": f"stores made anew {times} times: off by {rms(found[:1]):.2f} of the noise once, "
                    f"{rms(found):.2f} on average over all"}


def repeated(rows: Mapping[str, pd.DataFrame], times: int, keep: bool) -> np.ndarray:
    """[times, K] how far what was told is from the truth, in sds of its noise."""
    found, study = [], noised_doors.planned(tuple(rows), options=QUICK)
    with tempfile.TemporaryDirectory() as stores:
        for number in range(times):
            with met(study, rows, Path(stores) / ("kept" if keep else str(number))) as parties:
                task = material(noised_doors.overheard(parties), ())
            truth = sums(task.model, task.whom, jnp.asarray(task.whom.rows))
            found.append(((task.numbers - np.asarray(truth)) / task.noise)[:-OF_ARMS * len(rows)])
    return np.array(found)


def rms(found: np.ndarray) -> float:
    """Of the average over times."""
    return float(np.sqrt(np.mean(found.mean(0) ** 2)))


# --- resubmitted jobs


PEOPLE, LEFT_OUT = 2700, 40


def of_jobs(quick: bool) -> Row:
    """Job by job 40 people of the liar's choice are left out by linkage, of a site whose key file a helper has; in
    every second job one more: the difference is that person's row."""
    tries = 20 if quick else 200
    policy = {"name": "custom", "secure_sum": "auto"}
    answered, pairs, found = differences(policy, tries)
    free = {"name": "simulation", "sum_noise": SUM_NOISE}
    _, of_free, found_free = differences(free, 20 if quick else 60)
    return {"tries": tries, "recovered": found,
            "note": f"{answered} of {tries} cohorts answered, {pairs} pairs that differ by a person; by noise "
                    f"alone, the accountant off, {found_free} of {of_free} differences are the person's row to 0.1 sd"}


def of_control_jobs(quick: bool) -> Row:
    """Without noise, and without the accountant."""
    _, pairs, found = differences({"name": "simulation", "sum_noise": LITTLE}, 20)
    return {"tries": 1, "recovered": int(found < pairs or not pairs),
            "note": f"no noise, no accountant: {found} of {pairs} people's rows"}


def differences(policy: dict[str, Any], tries: int) -> tuple[int, int, int]:
    """(jobs that were answered, pairs of them, pairs whose difference is a person's row to 0.1 sd)."""
    key, rng = bytes(range(32)), np.random.default_rng(1)
    table = noised_doors.table(PEOPLE // 2, PEOPLE // 2, 5).assign(id=[f"p{k}" for k in range(PEOPLE)])
    study = planned({}, policy=policy, ids=("id",), runs=1000)
    answered, told, pairs, found = 0, {}, 0, 0
    unit = table[["a", "b"]].std().to_numpy()
    with tempfile.TemporaryDirectory() as folder:
        tokens = _job(study, table, Path(folder), key, "look", AskLinkKey("look", 2, "a"),
                      AskTokens("look", 3, "a", 0, 1))[-1][0]
        if not isinstance(tokens, Tokens):
            raise RuntimeError(f"no tokens: {tokens}")
        for number in range(tries):
            if number % 2 == 0:
                some = rng.choice(PEOPLE, LEFT_OUT + 1, replace=False)
            away = tokens.tokens[np.sort(some[number % 2:])]
            forged = witnesses(away, witness_key(key, study.hash()), b"a site that helps the liar")
            run = f"job-{number}"
            reply, who = _job(study, table, Path(folder), key, run, AskLinkKey(run, 2, "a"),
                              AskTokens(run, 3, "a", 0, 1), Exclude(run, 4, "a", away, forged, 0, 1), *_steps(run))[-1]
            if isinstance(reply, Reply) and "total" in reply.sums:
                answered, told[number] = answered + 1, (reply.sums["total"], set(who.tolist()))
    for number in range(0, tries, 2):
        if number in told and number + 1 in told:
            (few, fewer), (all_of_them, more) = told[number], told[number + 1]
            (person,) = more - fewer
            pairs += 1
            away = (all_of_them - few - table[["a", "b"]].to_numpy()[person]) / unit
            found += int(np.abs(away).max() < 0.1)
    return answered, pairs, found


def _steps(run: str) -> Iterator[Step]:
    """Which columns, and then their sums; the first's answer is what nothing withholds."""
    yield Step(run, 5, "a", "AskColumns")
    none = np.zeros(2)
    yield Step(run, 6, "a", "AskMeans", {name: none for name in ("withheld", "varies", "incomplete", "gaps_withheld")}
               | {"varies": np.ones(2)})


# --- memberships


SAME = 1e-2
"""Of a number's variance: told twice, or off by what each site's own means take, it is known no better than that."""


def of_members(quick: bool) -> Row:
    """Whoever has a person's whole row and knows the population, but nobody else of the study."""
    wrong = 1e-3
    heard = admitted(far=False)
    inside, out = likelihoods(heard, material(heard), 8000 if quick else 40000)
    named, hundredth = (int((inside > np.quantile(out, 1 - rate)).sum()) for rate in (wrong, 0.01))
    expected = wrong * len(inside)
    allowed = np.ceil(expected + 3.0 * np.sqrt(expected * (1.0 + len(inside) / len(out))))
    right = float(np.mean(np.searchsorted(np.sort(out), inside) / len(out)))
    return {"tries": len(inside), "recovered": max(0, int(named - allowed)),
            "note": f"test: the likelihood ratio of all that was told; at one wrong in 1000 {named} members are named, "
                    f"{expected:.1f} by chance; at one in 100 {hundredth}, {0.01 * len(inside):.0f} by chance; of two "
                    f"people the member is named in {100 * right:.1f} % of cases (50: chance)"}


def of_control_members(quick: bool) -> Row:
    """Without noise, of few people: numbers of whom there are as many as people."""
    heard = from_doors(12, 12, LITTLE * SUM_NOISE, more=(1, 0), far=False)
    inside, out = likelihoods(heard, material(heard), 8000)
    right = float(np.mean(np.searchsorted(np.sort(out), inside) / len(out)))
    return {"tries": 1, "recovered": int(right < 0.6),
            "note": f"noise off, {len(inside)} people: of two the member is named in {100 * right:.0f} % of cases"}


def likelihoods(heard: Heard, task: Material, strangers: int) -> tuple[np.ndarray, np.ndarray]:
    """(of members, of others of the population): mᵀΣ⁻¹(told − E told), m what a person adds to the numbers, less what
    the arm's do on average, Σ = Σ_arms n cov(m) + noise²; both from people of the population who are in no study."""
    honest = heard.honest(WORKS_WITH)
    shape = (strangers, strangers)
    outside, reference = (_in_units(heard, noised_doors.table(*shape, seed, far=False)) for seed in (501, 502))
    model, whom = task.model, task.whom
    counts = np.array([(whom.arms == arm).sum() for arm in (0, 1)])
    parts, means = each(model, *reference), []
    covariance = np.zeros((parts.shape[1],) * 2)
    for arm in (0, 1):
        mine = parts[reference[1] == arm]
        means.append(mine.mean(0))
        covariance += counts[arm] * np.cov(mine.T)
    summed = len(task.numbers) - OF_ARMS * len(honest)
    told = np.append(task.numbers[:summed], task.numbers[summed:].reshape(len(honest), -1).sum(0))
    noise = np.append(task.noise[:summed], np.full(OF_ARMS, len(honest) ** 0.5))
    away = told - expected(model, heard, reference)
    varies = np.diag(covariance) > 1e-12 * np.median(np.diag(covariance))  # levels do not, but for the arm's own
    heavy = covariance + np.diag(noise**2 + SAME * np.diag(covariance))
    whitened = np.zeros(len(away))
    whitened[varies] = np.linalg.solve(heavy[np.ix_(varies, varies)], away[varies])

    def scores(rows: np.ndarray, arms: np.ndarray) -> np.ndarray:
        return (each(model, rows, arms) - np.array(means)[arms.astype(int)]) @ whitened

    return scores(whom.rows, whom.arms), scores(*outside)


def _in_units(heard: Heard, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return ((table[[*noised_doors.COVARIATES, "y"]].to_numpy() - heard.centre) / heard.unit, table.w.to_numpy(float))


def each(model: Any, rows: np.ndarray, arms: np.ndarray) -> np.ndarray:
    """[n, K] what each adds to the numbers of `noised_sums.told`, about the arm's own levels."""
    of = np.stack([1.0 - arms, arms])
    x = np.clip(rows[:, :-1], -sum_noise.CLIP_X, sum_noise.CLIP_X)
    y = np.clip(rows[:, -1], -sum_noise.CLIP_Y, sum_noise.CLIP_Y)
    f = np.asarray(columns(model, Point(model.ravel(model.ridge)), jnp.asarray(x), jnp.asarray(of), jnp.asarray(y)))
    f = f - (of.T @ ((of @ f) / of.sum(1)[:, None]))
    places = np.triu_indices(f.shape[1])
    scale = np.where(places[0] == places[1], 2**0.5, 1.0) * sum_noise.noise_of(model)
    means = np.column_stack([rows[:, :-1], of.T * rows[:, -1:]]) / owed(model, "means")
    squares = np.clip(rows, -FARTHEST, FARTHEST) ** 2 / squares_owed(model)
    by_arm = (of.T[:, :, None] * np.column_stack([x, y])[:, None]).reshape(len(rows), -1) / owed(model, "effects")
    return np.column_stack([means, squares, f[:, places[0]] * f[:, places[1]] / scale, by_arm])


def expected(model: Any, heard: Heard, reference: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """[K] the numbers of sites like the honest ones, on average over people of the population."""
    rows, arms = reference
    rng, found = np.random.default_rng(4), []
    pools = [np.flatnonzero(arms == arm) for arm in (0, 1)]
    for _ in range(30):
        total = 0.0
        for site in heard.honest(WORKS_WITH):
            some = np.concatenate([rng.choice(pool, int(n)) for pool, n in zip(pools, heard.people(site), strict=True)])
            one = People(rows[some], arms[some], (), np.full((1, rows.shape[1]), FARTHEST))
            total = total + np.asarray(sums(model, one, jnp.asarray(one.rows)))
        found.append(total)
    return np.mean(found, 0)


ROWS = {"noised-lying": of_lies, "noised-more": of_more_studies, "noised-again": of_repetition,
        "noised-jobs": of_jobs, "noised-members": of_members, "control-noised-difference": of_difference,
        "control-noised-again": of_lost_stores, "control-noised-jobs": of_control_jobs,
        "control-noised-members": of_control_members}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=list(ROWS))
    parser.add_argument("--quick", action="store_true", help="fewer lies, jobs and repetitions")
    asked = parser.parse_args()
    told_row(ROWS, asked.row, asked.quick)


if __name__ == "__main__":
    main()
