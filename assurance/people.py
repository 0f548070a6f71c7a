"""People recovered: attacks on studies of real doors, ledgers and stores, under the policy `standard`.

    python assurance/people.py [--quick] [ROW …]        a line of JSON for each row: what was tried, on how many,
                                                        how many were recovered (must be 0), and figures

A *control* is a row with a protection taken away: there the attack must succeed, or it shows nothing elsewhere.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import people_attack as attack
import people_told
from gram_attack import score, spread_over
from people_sites import FEW, MANY, NO_LIMIT, Heard, Parties, followed, listened, met, people, planned, tables
from people_told import Listener
from run import PEOPLE

from fedci import Source, Study
from fedci.coordinator import coordinator
from fedci.coordinator.coordinator import run_study
from fedci.coordinator.talk import Talk
from fedci.errors import DisclosureError, FedciError
from fedci.privacy.agreement import Credentials, witness_key
from fedci.privacy.tokens import witnesses
from fedci.protocol import course
from fedci.protocol.codec import decode, encode
from fedci.protocol.course import Contract
from fedci.protocol.messages import AskLinkKey, AskTokens, Exclude, Hello, Message, Reply, Step, Tokens
from fedci.site import accountant, admission
from fedci.site.door import Door
from fedci.site.ledger import Ledger
from fedci.site.outcome_noise import flipped_share
from fedci.site.site import Site
from fedci.version import __version__

DELTA = 0.1
SMALL = (170, 170, 170)
AGE: dict[str, Any] = {"age": {}}


class Row(NamedTuple):
    what: str
    tries: int
    """People, answers or outcomes that were tried for."""
    recovered: int
    note: str


ALLOWED: dict[str, Any] = {"name": "custom", "numbers_per_person": 0.3}
"""`standard` admits no fit of exact sums: what every site would have to allow for the smallest one."""


def allowed_size(sites: int) -> int:
    """The people a site needs until the smallest fit tells 0.3 numbers for each at most, as `fedci check` advises."""
    study = planned(tables((SMALL[0],) * sites), covariates=AGE, policy=ALLOWED)
    asked = admission.situation(study, Source("site-0", people(SMALL[0], 0)).read(study), sites)
    return next(one.then.rows for one in admission.advice(asked) if one.then.rows > asked.rows) + 20


def heard_of_few_numbers(sites: int) -> Heard:
    """Such a study; arms are not even, so a few people more than advised."""
    rows = tables((allowed_size(sites),) * sites)
    with met(planned(rows, covariates=AGE, policy=ALLOWED), rows) as parties:
        return listened(parties)


def beyond(near: int, chance: float) -> int:
    """People who are near, more than by chance and three standard deviations of its count."""
    return max(0, near - math.ceil(chance + 3.0 * chance**0.5))


def beyond_chance(found: Any) -> int:
    return beyond(found.near, found.chance_near)


# --- a coordinator that listens


def refused(quick: bool) -> Row:
    """The preset as it is, and as few numbers as a fit can tell, of few people and of many."""
    tried, lost, told = 0, 0, 0
    for sizes, how in ((SMALL, {"options": {}}), (SMALL, {"covariates": AGE}), ((5000,) * 3, {"covariates": AGE})):
        rows = tables(sizes)
        with met(planned(rows, **how), rows) as parties:
            tried += sum(sizes)
            try:
                run_study(parties, parties.study)
                lost += sum(sizes)
            except DisclosureError:
                told += parties.told
    return Row("", tried, lost + int(told > 0),
               f"three studies, two of them with as few numbers as a fit can tell: "
               f"{'all refused' if not lost else 'NOT all refused'}; {told} numbers told")


def from_nothing(quick: bool) -> Row:
    return _rows(heard_of_few_numbers(3), "nothing", starts=2 if quick else 6)


def from_a_column(quick: bool) -> Row:
    return _rows(heard_of_few_numbers(3), "column", starts=3 if quick else 12)


def colluding(quick: bool) -> Row:
    """The sums, less what the two know of themselves, are those of the other two: their rows are looked for."""
    heard = heard_of_few_numbers(4)
    return _rows(heard, "column", starts=2 if quick else 6, known_rows=sum(heard.fit.sizes[:2]))


WHOLE = {"model": {"knots": 1, "directions": 0, "landmarks": 0, "inducing": 16},
         "optimiser": {"rounds": 1, "draws": 1, "first_rows": 0}, "prediction": {"draws": 8}}
"""As few numbers as a fit can tell, of large sites: their sums are cheap to differentiate."""


def everything(quick: bool) -> Row:
    """One who knows everything but age, and fits all that was told: the column, person by person."""
    rows = tables((allowed_size(3),) * 3)
    with met(planned(rows, covariates=AGE, policy=ALLOWED, options=WHOLE), rows) as parties:
        listener = followed(parties)[1]
    return _fitted(listener, _known(parties), quick)


def _known(parties: Parties) -> np.ndarray:
    """[n, 2] arm and outcome, as the sums have it."""
    sites = [parties.site(name).party.noisy for name in parties.sites]
    return np.vstack([np.column_stack([site.w, site.y]) for site in sites])


STARTS = 12


def _fitted(who: Listener, known: np.ndarray, quick: bool) -> Row:
    """The best of so many starts: two thirds by least squares, the others by descent; nobody's, a regression's, random
    ones."""
    rng, starts = np.random.default_rng(0), 2 if quick else STARTS
    left, guess = people_told.left(who.parts(who.truth)), regressed(known, who.truth)
    begin = [np.zeros(len(guess)), guess, *rng.standard_normal((max(0, starts - 2), len(guess)))]
    found = []
    for k, start in enumerate(begin[:starts]):
        found.append(attack.by_descent(who, start, 40) if k % 3 == 2 else attack.by_least_squares(who, start, 6))
    near, chance = max((attack.near(one.values, who.truth) for one in found), key=lambda one: one[0] - one[1])
    averages = int(np.count_nonzero(np.abs(guess - who.truth) < 0.1))
    return Row("", len(left), beyond(near, max(chance, averages)),
               f"{len(who.told())} numbers; best of {starts} starts {near} of {len(left)} within 0.1 sd (shuffled "
               f"{chance:.0f}, a regression on what is known {averages}); {_in_words(left)}")


def regressed(known: np.ndarray, column: np.ndarray) -> np.ndarray:
    """The column from arm and outcome: what averages tell anyway."""
    w, y = known.T
    by = np.column_stack([np.ones(len(known)), w, y, w * y])
    return np.asarray(by @ np.linalg.lstsq(by, column, rcond=None)[0])


def _in_words(left: np.ndarray) -> str:
    return (f"by the local bound {(left < 0.1).sum()} could be known to 0.1 sd, {(left < 0.3).sum()} to 0.3 sd at best "
            f"(most exposed {left.min():.2f}, typical {np.median(left):.2f})")


def control_everything(quick: bool) -> Row:
    """Three times as many numbers as people, and everybody's age known to 0.3 sd beforehand."""
    low = {"min_rows": 10, "min_arm_rows": 3, "override_reason": "control", "statistics_per_row": 9.0,
           "max_parameters_per_row": 9.0, "min_cell": 0}
    rows = tables((20, 20, 20))
    options = FEW | {"optimiser": {"rounds": 3, "draws": 2}}
    with met(planned(rows, covariates=AGE, policy=NO_LIMIT | low, options=options), rows) as parties:
        heard = listened(parties)
    who, rng = heard.listener, np.random.default_rng(0)
    start = who.truth + 0.3 * rng.standard_normal(len(who.truth))
    before = attack.near(start, who.truth)[0]
    near = [attack.near(way(who, start, steps).values, who.truth)[0]
            for way, steps in ((attack.by_least_squares, 40), (attack.by_descent, 300))]
    known = int((people_told.left(who.parts(who.truth)) < 0.1).sum())
    return Row("", 1, int(not beyond(max(near), before) or 2 * max(near) < len(start)),
               f"limit off, {len(who.told())} numbers of {len(start)} people, ages known to 0.3 sd: within 0.1 sd were "
               f"{before}, then {near[0]} by least squares, {near[1]} by gradient descent; the bound has {known}")


def _rows(heard: Heard, known: str, starts: int, known_rows: int = 0) -> Row:
    fit, rng = heard.fit, np.random.default_rng(0)
    free = np.zeros(fit.truth.shape, bool)
    free[known_rows:, slice(None) if known == "nothing" else slice(0, 1)] = True
    draws = np.arange(len(fit.thetas))
    begin = [fit.centre + (k > 0) * fit.spread * rng.standard_normal(fit.truth.shape) for k in range(starts)]
    ends = [attack.fitted(heard, draws, free, start, 8) for start in begin]
    best = max((score(end.rows, fit, free, paired=known != "nothing") for end in ends), key=lambda one: one.near)
    left = attack.bound(heard, draws, free).reshape(free.any(1).sum(), -1).max(1)
    return Row("", len(left), beyond_chance(best),
               f"{len(fit.truth)} people; best of {starts} starts {best.near} of {len(left)} within 0.1 sd (shuffled "
               f"{best.chance_near:.0f}); {_in_words(left)}")


def members(quick: bool) -> Row:
    heard = heard_of_few_numbers(3)
    fit, n = heard.fit, len(heard.fit.truth)
    scales = heard.result.layout.scales
    rows = people(4 * n, 999)[["age", "w", "y"]].to_numpy(float)
    rows = (rows - [*scales.x_mean, 0.0, scales.y_mean]) / [*scales.x_sd, 1.0, scales.y_sd]
    rows[:, -1] += np.sqrt(np.mean(heard.added)) * np.random.default_rng(1).standard_normal(len(rows))
    beyond, right = attack.memberships(heard, rows)
    return Row("", len(fit.truth), beyond,
               f"of two people, the member is named in {100 * right:.0f} % of cases (50: chance)")


def control_column(quick: bool) -> Row:
    """The limit on numbers taken away, of few people: several times as many as by chance have to be found."""
    policy = NO_LIMIT | {"min_rows": 10, "min_arm_rows": 3, "override_reason": "control", "statistics_per_row": 99.0,
                         "max_parameters_per_row": 99.0, "min_cell": 0}
    rows = tables((12, 12, 12))
    with met(planned(rows, policy=policy, options=MANY), rows) as parties:
        heard = listened(parties)
    fit, rng = heard.fit, np.random.default_rng(0)
    free = np.zeros(fit.truth.shape, bool)
    free[:, 1] = True
    draws = spread_over(len(fit.thetas), 24)
    begin = [fit.centre + k * 0.3 * fit.spread * rng.standard_normal(fit.truth.shape) for k in range(2 if quick else 6)]
    ends = [attack.fitted(heard, draws, free, start, 60) for start in begin]
    best = score(min(ends, key=lambda end: end.misfit).rows, fit, free, paired=True)
    known = int((attack.bound(heard, draws, free) < 0.1).sum())
    return Row("", 1, int(beyond_chance(best) == 0 or best.near < 3.0 * best.chance_near),
               f"limit off: {best.near} of {len(fit.truth)} people within 0.1 sd (shuffled {best.chance_near:.0f}), "
               f"from {len(draws)} of {len(fit.thetas)} draws; the bound has {known}: what numbers_per_person is for")


# --- outcomes


def outcome_attack(quick: bool) -> Row:
    """The same people in several studies: other seeds, options, covariates, kits. Errors in sd of the outcome."""
    sizes = (60, 60, 60) if quick else SMALL
    rows = tables(sizes)
    ways: list[dict[str, Any]] = [{}, {"seed": 1}, {"covariates": {"age": {}}, "ids": ("id",)}]
    ways = [way | {"ids": ("id",), "linkage": {"enabled": False}} for way in ways[:2 if quick else 3]]
    rows = {name: table.assign(id=[f"{name}-{k}" for k in range(len(table))]) for name, table in rows.items()}
    errors, found = [], []
    with tempfile.TemporaryDirectory() as stores:
        for way in ways:
            with met(planned(rows, policy=NO_LIMIT, options=MANY, **way), rows, Path(stores)) as parties:
                heard = listened(parties)
            solved = attack.outcomes(heard, np.arange(len(heard.fit.thetas)))
            scale = heard.result.layout.scales
            found.append(scale.y_mean + scale.y_sd * solved)
            true = scale.y_mean + scale.y_sd * heard.outcomes
            errors.append(_rms(found[-1], true))
    together, best = _rms(np.mean(found, 0), true), _best(heard)
    best_of_all = min([*errors, together])
    return Row("", len(true), int(best_of_all < 0.9 * best) * len(true),
               f"rms error of each study {', '.join(f'{e:.3f}' for e in errors)} sd, of their average {together:.3f} "
               f"(best possible {best:.3f}; δ = {DELTA})")


def _rms(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - true) ** 2)) / np.std(true))


def _best(heard: Heard) -> float:
    """Of one who knows ỹ exactly and the regression on covariates and arm: √(e²r²/(e² + r²)) with the noise e that
    was in fact drawn and the residual sd r."""
    rows, y = heard.fit.truth, heard.outcomes
    x = np.column_stack([np.ones(len(rows)), rows[:, :-1], rows[:, :-2] * rows[:, -2:-1]])
    left = float(np.std(y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) / np.std(y))
    noise = _rms(rows[:, -1], y)
    return noise * left / math.hypot(noise, left)


def control_outcomes(quick: bool) -> Row:
    """Without noise on outcomes."""
    rows = tables((60, 60, 60))
    policy = NO_LIMIT | {"outcome_noise": 0.0}
    with met(planned(rows, policy=policy, options=MANY), rows) as parties:
        heard = listened(parties)
    error = _rms(attack.outcomes(heard, np.arange(len(heard.fit.thetas))), heard.outcomes)
    return Row("", 1, int(error > 0.05),  # sums under masks are rounded, and hold no more
               f"δ = 0, limit off: rms error {error:.1e} sd of {len(heard.outcomes)} outcomes")


def two_values(quick: bool) -> Row:
    """Everybody's ỹ is solved for: whoever was flipped is taken for the other value, and nobody knows who was."""
    rows = {name: table.assign(y=np.where(table.y - table.w > 2.54, 7.0, 5.0))
            for name, table in tables((60, 60, 60)).items()}
    with met(planned(rows, policy=NO_LIMIT | {"min_cell": 5}, options=MANY), rows) as parties:
        heard = listened(parties)
    solved, y = attack.outcomes(heard, np.arange(len(heard.fit.thetas))), heard.outcomes
    right, flipped = int(((solved > 0) == (y > 0)).sum()), int(((heard.fit.truth[:, -1] > 0) != (y > 0)).sum())
    expected = len(y) * flipped_share(float((y > 0).mean()), DELTA)
    return Row("", len(y), max(0, right + flipped - len(y)),
               f"{right} of {len(y)} are named rightly, the {flipped} who were flipped (expected {expected:.1f}) are "
               f"not: noise makes a named value uncertain by one in {len(y) / expected:.0f}, no more. The limit of "
               f"numbers, off here, is what keeps them from being solved for")


def outcomes_admitted(quick: bool) -> Row:
    """What the limit on numbers leaves, beside the noise: the regression is all that is found."""
    heard = heard_of_few_numbers(3)
    solved, y = attack.outcomes(heard, np.arange(len(heard.fit.thetas))), heard.outcomes
    near = int((np.abs(solved - y) < 0.1 * np.std(y)).sum())
    expected = math.ceil(len(y) * 0.12)
    error = _rms(solved, y)
    return Row("", len(y), int(error < DELTA) * len(y),
               f"rms error {error:.2f} sd (best possible {_best(heard):.3f}); {near} of {len(y)} within 0.1 sd, a "
               f"guess from the regression some {expected}")


# --- a coordinator that lies


class Liar:
    """Passes on what `lie` makes of each request, and keeps what sites answered."""

    def __init__(self, parties: Parties, lie: Callable[[Message], Message | None]):
        self.parties, self.lie, self.sites = parties, lie, parties.sites
        self.answers: list[tuple[Message, Message]] = []

    def exchange(self, requests: dict[str, Message]) -> dict[str, Message]:
        told = {name: lied for name, request in requests.items() if (lied := self.lie(request)) is not None}
        found = self.parties.exchange(told)
        self.answers += [(told[name], reply) for name, reply in found.items()]
        return found


def _false_sum(at: str) -> Callable[[Message], Message]:
    def lie(request: Message) -> Message:
        if isinstance(request, Step) and request.name == at and "total" in request.previous:
            total = request.previous["total"].copy()
            total[0] += 1
            return replace(request, previous={"total": total})
        return request
    return lie


def _renamed(at: str, to: str) -> Callable[[Message], Message]:
    return lambda request: replace(request, name=to) if isinstance(request, Step) and request.name == at else request


def _silent(at: str) -> Callable[[Message], Message | None]:
    return lambda request: None if request.site == "site-0" and getattr(request, "name", "") == at else request


def _cohort(request: Message) -> Message:
    return replace(request, sites=dict(list(request.sites.items())[:-1])) if isinstance(request, Hello) else request


def lies(steps: list[str]) -> dict[str, Callable[[Message], Message | None]]:
    """All that a coordinator can say otherwise: names of steps, sums, whom it asks, the study and its cohort."""
    found: dict[str, Callable[[Message], Message | None]] = {"a smaller cohort": _cohort}
    for at in steps:
        found[f"a false sum before {at}"] = _false_sum(at)
        found[f"silence at {at}"] = _silent(at)
        found |= {f"{to} instead of {at}": _renamed(at, to) for to in steps if to != at}
    return found


def lying(quick: bool) -> Row:
    """An answer counts that has numbers and is not, byte for byte, what the honest course has at that place."""
    rows = tables((60, 60, 60))
    study = planned(rows, policy=NO_LIMIT, diagnostics={"enabled": True},
                    options=FEW | {"optimiser": {"rounds": 1, "draws": 1}})
    with tempfile.TemporaryDirectory() as stores, met(study, rows, Path(stores)) as parties:
        honest = Liar(parties, lambda request: request)
        run_study(honest, study, run="run")
        known = {_place(request, reply) for request, reply in honest.answers}
        steps = list(dict.fromkeys(r.name for r, _ in honest.answers if isinstance(r, Step)))
        tried = lies(steps)
        tried = dict(list(tried.items())[::4]) if quick else tried
        foreign, answers = 0, 0
        for lie in tried.values():
            with met(study, rows, Path(stores), identities=parties.identities) as asked:
                liar = Liar(asked, lie)
                _tried(lambda liar=liar: run_study(liar, study, run="run"))
                answers += len(liar.answers)
                foreign += sum(_tells(reply) and _place(request, reply) not in known for request, reply in liar.answers)
        foreign += _other_studies(study, rows)
    return Row("", answers, foreign, f"{len(tried)} lies and 3 other studies; answers with numbers that the honest "
                                     f"course does not have: {foreign}")


def _other_studies(study: Study, rows: dict[str, pd.DataFrame]) -> int:
    """Another seed, preset or number of runs than the sites': answers with numbers."""
    found = 0
    for change in ({"seed": 1}, {"preset": "classic", "options": {}}, {"runs": 100}):
        with met(study, rows) as parties:
            liar = Liar(parties, lambda request: request)
            _tried(lambda liar=liar, change=change: run_study(liar, study.changed(**change), run="run"))
            found += sum(_tells(reply) for _, reply in liar.answers)
    return found


def _tells(reply: Message) -> bool:
    return isinstance(reply, Reply) and bool(reply.sums)


def _place(request: Message, reply: Message) -> tuple[Any, ...]:
    sums = getattr(reply, "sums", {})
    return request.site, request.round, tuple((name, np.asarray(part).tobytes()) for name, part in sorted(sums.items()))


def _tried(run: Callable[[], Any]) -> None:
    try:
        run()
    except FedciError:
        return


# --- ever more studies


def one_more(quick: bool) -> Row:
    """The same study of one patient more: in the same kit's place, a new kit, with another seed, other options, ids."""
    rows, more = tables((100, 100, 100)), tables((101, 100, 100))
    more["site-0"].iloc[:100] = rows["site-0"]
    plain: list[dict[str, Any]] = [{}, {"seed": 1}, {"options": MANY}, {"runs": 9}]
    answered = 0
    with tempfile.TemporaryDirectory() as stores:
        for table, ways in ((rows, plain[:1]), (more, plain)):
            for way in ways:
                study = planned(table, policy=NO_LIMIT, **way)
                with met(study, table, Path(stores)) as parties:
                    _tried(lambda parties=parties, study=study: opened(parties, study))
                    told = parties.told_by("site-0")
                answered += told if table is more else 0
                if table is rows and not told:
                    raise RuntimeError("the first study told nothing: the row shows nothing")
    return Row("", len(plain), int(answered > 0), f"a new kit each time; numbers told of these 101 people: {answered}")


def opened(parties: Parties, study: Study) -> None:
    """Until the fit begins."""
    talk, contract = Talk(parties, "run"), Contract(study, parties.sites)
    coordinator.handshake(talk, contract)
    talk, known = coordinator.open_course(talk, contract)
    talk.follow(course.design(contract, known))


def jobs(quick: bool) -> Row:
    """Linkage with a key file that a helper has too: 40 of 160 people of the liar's choice are left out, job by job."""
    tries, count, key = 30 if quick else 200, 160, bytes(range(32))
    table = people(count, 5).assign(id=[f"p{k}" for k in range(count)])
    study = planned({"a": table}, sites=(), policy=NO_LIMIT | {"secure_sum": "auto"}, ids=("id",), runs=1000)
    rng, got = np.random.default_rng(1), []
    with tempfile.TemporaryDirectory() as folder:
        tokens = _job(study, table, Path(folder), key, "look", AskLinkKey("look", 2, "a"),
                      AskTokens("look", 3, "a", 0, 1))[-1][0]
        if not isinstance(tokens, Tokens):
            raise RuntimeError(f"no tokens: {tokens}")
        for number in range(tries):
            run, away = f"job-{number}", tokens.tokens[np.sort(rng.choice(count, count // 4, replace=False))]
            forged = witnesses(away, witness_key(key, study.hash()), b"a site that helps the liar")
            asked = _job(study, table, Path(folder), key, run, AskLinkKey(run, 2, "a"), AskTokens(run, 3, "a", 0, 1),
                         Exclude(run, 4, "a", away, forged, 0, 1), Step(run, 5, "a", "AskColumns"))
            last, who = asked[-1]
            if isinstance(last, Reply) and last.sums:
                got.append(np.isin(np.arange(count), who))
    told_of = np.array(got, float)
    values = table[["age", "bmi"]].to_numpy()
    found = np.linalg.lstsq(told_of, told_of @ values, rcond=None)[0]  # as if every sum had been told exactly
    recovered = int((np.abs(found - values) < 0.05).all(1).sum())
    weight = float(np.diag(np.linalg.pinv(told_of) @ told_of).max())
    return Row("", tries, recovered, f"{len(got)} of {tries} cohorts answered; no combination of their sums rests on "
                                     f"fewer than {1 / weight:.0f} people")


def _job(study: Study, table: pd.DataFrame, folder: Path, key: bytes, run: str,
         *requests: Message) -> list[tuple[Message, np.ndarray]]:
    """(answer, rows that take part) of each request, in a new kit of the same site."""
    with Ledger(folder / run) as ledger:
        account = accountant.opened(folder / "store", ledger.entries)
        site = Site(study, Source("a", table).read(study), Credentials(key), account)
        door = Door(site, ledger, folder / run)
        hello = Hello(run, 1, "a", __version__, study.hash(), {"a": True})
        return [(decode(door.answer(encode(request))), site.run.rows) for request in (hello, *requests)]


ROWS: dict[str, Callable[[bool], Row]] = {
    "refused": refused, "nothing": from_nothing, "column": from_a_column, "everything": everything,
    "members": members, "control-column": control_column, "control-everything": control_everything,
    "colluding": colluding, "lying": lying, "one-more": one_more, "jobs": jobs,
    "outcomes": outcome_attack, "outcomes-admitted": outcomes_admitted, "two-values": two_values,
    "control-outcomes": control_outcomes}


def made(key: str, quick: bool) -> Row:
    began = time.perf_counter()
    row = ROWS[key](quick)
    return row._replace(what=PEOPLE[key], note=f"{row.note}; {time.perf_counter() - began:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="none: all")
    parser.add_argument("--quick", action="store_true", help="fewer starts, lies and jobs")
    how = parser.parse_args()
    found = []
    for key in how.rows or ROWS:
        found.append(made(key, how.quick))
        print(json.dumps(found[-1]._asdict(), ensure_ascii=False), flush=True)
    sys.exit(any(row.recovered for row in found))


if __name__ == "__main__":
    main()
