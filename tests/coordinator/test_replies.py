"""Whatever a site answers, the coordinator ends in the study's result or in an error of ours that names the site."""

import traceback
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from fedci.coordinator.coordinator import run_study
from fedci.coordinator.replies import checked, noted, reason, refused
from fedci.coordinator.talk import Talk
from fedci.errors import FedciError, MessageError, SiteError
from fedci.plain import LONGEST, MOST
from fedci.protocol.messages import Refusal, Reply, Tokens
from fedci.protocol.requests import REQUESTS, asked
from fedci.site.site import Site
from support.linked import frames, linked, sites
from tests_support import Wire, frame, small, study

BROKEN = "b"
HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;title\x07\u202egnp\u202c\x00\u200b\nnext" + "x" * 100_000


class Replay:
    """An engine that answers as the sites of a recorded study did, but for one answer."""

    def __init__(self, said, sites, broken):
        self.answers = {(request.round, request.site): reply for request, reply in said}
        self.sites, self.broken, self.last = sites, broken, 0

    def exchange(self, requests):
        self.last = max(request.round for request in requests.values())
        return {name: self.broken.get((request.round, name), self.answers.get((request.round, name)))
                for name, request in requests.items()}


def planned(preset, secure):
    policy = {"name": "simulation", "secure_sum": "auto" if secure else False}
    options = {"optimiser": {"rounds": 2}, "prediction": {"draws": 16}} if preset == "classic" else small(2)
    return study(preset=preset, policy=policy, ids=["pid"], options=options, diagnostics={"enabled": True})


def ran(engine, plan):
    return run_study(engine, plan, link_secret=bytes(32), run="run")


@pytest.fixture(scope="module", params=[pytest.param(("classic", False), id="classic", marks=pytest.mark.slow),
                                        pytest.param(("default", False), id="default"),
                                        pytest.param(("classic", True), id="masked", marks=pytest.mark.slow)])
def recorded(request):
    """(the study, whether it is masked, all that was said, its sites)."""
    from fedci import Source

    plan = planned(*request.param)
    data = {name: rows for name, rows in frames().items() if request.param[1] or name != "c"}
    wire = Wire({name: Site(plan, Source(name, rows).read(plan)) for name, rows in data.items()})
    ran(wire, plan)
    return plan, request.param[1], wire.said, tuple(sorted(data))


def firsts(said):
    """The broken site's first answer to each kind of request."""
    seen = {}
    for request, reply in said:
        if request.site == BROKEN:
            seen.setdefault(asked(request), (request, reply))
    return list(seen.values())


def broken_arrays(array):
    yield from (np.zeros(0), np.zeros(array.shape, bool) if array.dtype != bool else np.zeros(array.shape),
                np.zeros((*array.shape, 1), array.dtype), np.zeros(()) if array.shape else np.zeros(3),
                np.full(array.shape, np.nan), np.full(array.shape, np.inf), np.full(array.shape, 1e300),
                np.full(array.shape, -1e300), np.full(array.shape, -1.0), np.full(array.shape, np.iinfo(np.int64).min),
                np.full(array.shape, np.iinfo(np.int64).max), np.zeros_like(array), np.full(array.shape, 1e150))
    if array.ndim:
        yield np.concatenate([array, array])
        yield array[:-1]
    if array.dtype != bool:
        yield -array


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


BROKEN_NOTES = (None, "", "zz", "00" * 32, "00" * 66, -1, 10**30, 1e300, float("nan"), True, [], {}, nested(100), [1],
                {"b": 1}, {"nobody": "00"}, {1: 2}, "x" * 10**6, [HOSTILE] * 200, {"a": "00" * 82, "b": "00" * 82},
                {"a": "00" * 66, "b": "00" * 66, "c": "00" * 66}, {"a": nested(50)}, 0, 3)


def broken_replies(reply):
    """The answer with one field dropped, of another type, another size, not finite, huge, negative or nested."""
    if isinstance(reply, Tokens):
        yield from (replace(reply, tokens=one) for one in broken_arrays(reply.tokens))
        yield Reply(reply.run, reply.round, reply.site)
        return
    for name, array in reply.sums.items():
        rest = {key: value for key, value in reply.sums.items() if key != name}
        yield replace(reply, sums=rest)
        yield from (replace(reply, sums=rest | {name: one}) for one in broken_arrays(array))
    for name in [*reply.notes, "jitter", "warnings", "nothing of ours"]:
        rest = {key: value for key, value in reply.notes.items() if key != name}
        yield replace(reply, notes=rest)
        yield from (replace(reply, notes=rest | {name: one}) for one in BROKEN_NOTES)
    yield replace(reply, sums=reply.sums | {"more": np.zeros(3)})
    yield replace(reply, sums=reply.sums | {"own/more": np.zeros(3)})
    yield replace(reply, sums={"masked": np.zeros(3, np.int64)})
    yield from (replace(reply, round=7**9), replace(reply, site="a"), replace(reply, run=""), None)
    yield from (Refusal(reply.run, reply.round, reply.site, code, HOSTILE) for code in ("", "message", "input", "?"))
    yield Tokens(reply.run, reply.round, reply.site, np.zeros((2, 2), np.int64), np.zeros((2, 3), np.int64))


def judged(engine, plan, request, secure=False):
    """('result', 'named' or 'cannot be told' of the study with this answer; what is wrong with its end, else '')."""
    try:
        found = ran(engine, plan)
        assert all(warning.isprintable() and len(warning) <= LONGEST for warning in found.warnings)
        return "result", ""
    except FedciError as problem:
        words, site = str(problem), getattr(problem, "site", "")
        kind = type(problem).__name__
    except Exception:  # whatever it is, it is one too many
        return "another error", traceback.format_exc()[-700:]
    assert words.isprintable()
    assert len(words) < 2000
    named = f"'{BROKEN}'" in words or site == BROKEN
    # a lie that no check can know leads the course elsewhere, where the recorded answers do not fit
    leads_on = engine.last > request.round or "not finite" in words or "are those of nobody" in words
    told = named or leads_on or "cannot be told" in words or (secure and "one of" in words)
    return "named" if named else "cannot be told", "" if told else f"{kind}: {words[:120]}"


def test_each_field_of_each_answer_of_a_whole_study(recorded):
    plan, secure, said, names = recorded
    outcomes, wrong = Counter(), set()
    for request, reply in firsts(said):
        for broken in broken_replies(reply):
            engine = Replay(said, names, {(request.round, BROKEN): broken})
            outcome, words = judged(engine, plan, request, secure)
            outcomes[outcome] += 1
            wrong |= {(asked(request), words)} if words else set()
    assert not wrong, sorted(wrong)
    assert outcomes["named"] > 300, outcomes


def test_the_words_of_a_site_are_cleaned_and_bounded():
    reply = Reply("r", 1, "b", {}, {"warnings": [HOSTILE] * (MOST + 3)})
    found = checked(reply, REQUESTS["Hello"], False, ("a", "b")).notes["warnings"]
    assert len(found) == MOST + 1
    assert found[-1] == "and 3 more"
    assert found[0].startswith("red gnp next")
    assert all(one.isprintable() and len(one) <= LONGEST for one in found)
    problem = refused(Refusal("r", 1, "b", "site", HOSTILE))
    assert isinstance(problem, SiteError)
    assert str(problem).startswith("site 'b': red gnp next")
    assert len(str(problem)) < LONGEST + 20
    assert reason(Refusal("r", 1, "b", "site", "")) == "site 'b': it gives no reason"
    assert refused(Refusal("r", 1, "b", "message", "what?")).site == "b"


def test_a_note_without_which_nothing_goes_on_is_missed_by_its_sites_name():
    with pytest.raises(MessageError, match="site 'b' answered without 'people'") as problem:
        noted(Reply("r", 1, "b"), "people", int)
    assert problem.value.site == "b"


@pytest.mark.parametrize("people", [0, 39, 41, 10**9])
def test_a_site_that_claims_people_it_has_no_tokens_for_is_named(people):
    def claims(message):
        return replace(message, notes=message.notes | {"people": people}) if "people" in getattr(
            message, "notes", {}) and message.site == BROKEN else message

    with pytest.raises(MessageError, match=f"site '{BROKEN}' sent") as problem:
        linked(sites(), change=claims)
    assert problem.value.site == BROKEN


# --- what came later: one exchange after the other, as the coordinator takes it in


def later_frame(rows, number):
    """With outcomes of every type, three arms, and gaps."""
    made, rng = frame(rows, number), np.random.default_rng((number, 3))
    days, end = rng.exponential(6.0 * np.exp(0.5 * made.w)), rng.uniform(1.0, 12.0, rows)
    years = rng.uniform(0.5, 2.0, rows)
    gaps = made.bmi.where(rng.uniform(size=rows) > 0.3)
    return made.assign(sick=(made.y > made.y.median()).astype(int), dose=np.arange(rows) % 3, gaps=gaps,
                       days=np.minimum(days, end), died=(days <= end).astype(int), years=years,
                       falls=rng.poisson(years * np.exp(0.5 - 0.4 * made.w)))


FEWER = {"model": {"directions": 1, "knots": 3, "landmarks": 4, "inducing": 16}, "optimiser": {"rounds": 2, "draws": 2},
         "prediction": {"draws": 16}}
CHECKED = {"diagnostics": {"enabled": True}}
LATER = {
    "few": {"preset": "few", "options": small(2)},
    "0/1 outcomes": CHECKED | {"outcome": {"name": "sick", "type": "binary"}},
    "times": CHECKED | {"outcome": {"time": "days", "event": "died", "type": "survival", "horizons": [2.0, 6.0]}},
    "counts": CHECKED | {"outcome": {"name": "falls", "type": "count", "exposure": "years"}},
    "three arms": {"treatment": {"name": "dose", "arms": ["0", "1", "2"]}},
    "completion": {"covariates": {"age": {}, "gaps": {"missing": "model"}}},
    "subgroups and decisions": CHECKED | {"subgroups": {"sex": "sex", "age": {"by": "age", "cuts": [60]}},
                                          "decisions": {"along": ["age", "sex"], "cost": 0.5}},
}
"""Kinds of studies of which a site is asked what it is not in the studies above."""
THEIRS = {"few": {"AskMoments", "AskProducts"}, "0/1 outcomes": {"AskRisks"}, "times": {"AskTimes", "AskSurvival"},
          "counts": {"AskExposure", "AskRates"}, "three arms": {"AskArms"}, "completion": {"AskCompletion"},
          "subgroups and decisions": {"AskDiagnostic.subgroups", "AskDiagnostic.decisions"}}


class Said(NamedTuple):
    """A study of a kind, as it went."""

    plan: object
    said: list
    """(request, reply), one after the other."""
    exchanges: dict
    """Kind of question → (the talk before it was asked first, what was asked, the sites' answers)."""
    theirs: set
    """Questions that only such studies have."""


@pytest.fixture(scope="module", params=LATER, ids=str)
def later(request):
    from fedci import Source

    plan = study(**{"preset": "default", "options": FEWER} | LATER[request.param])
    wire = Wire({name: Site(plan, Source(name, later_frame(40, k)).read(plan)) for k, name in enumerate("ab")})
    seen, total = {}, Talk.total

    def kept(talk, ask):
        said, before = len(wire.said), talk.at(talk.round, talk.previous)
        found = total(talk, ask)
        seen.setdefault(ask.name, (before, ask, {reply.site: reply for _, reply in wire.said[said:]}))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Talk, "total", kept)
        ran(wire, plan)
    assert THEIRS[request.param] <= seen.keys()
    return Said(plan, wire.said, seen, THEIRS[request.param])


def taken(talk, ask, answers):
    """The sum that the coordinator makes of these answers; an error of ours where it makes none."""
    class Engine:
        sites = tuple(answers)

        def exchange(self, requests):
            return answers

    return Talk(Engine(), talk.run, talk.terms, number=talk.round, previous=talk.previous).total(ask)


def said_against(talk, ask, answers):
    """Why it makes none; '' where it does."""
    try:
        taken(talk, ask, answers)
    except FedciError as problem:
        return str(problem)
    return ""


def is_a_sum(array, like):
    """Whether nothing that a coordinator knows speaks against these numbers."""
    return (array.shape == like.shape and array.dtype.kind in "if" and bool(np.isfinite(array).all())
            and bool((np.abs(array) < 1e200).all()))


def test_a_damaged_field_of_what_came_later_is_refused_and_its_site_named(later):
    """Each array of each answer gone, of another shape or type, not finite or huge; and what is beside it. Numbers of
    the right form are refused where no people have them, and only then."""
    refusals = 0
    for talk, ask, answers in later.exchanges.values():
        whole, rules = answers[BROKEN], REQUESTS[ask.name].rules()
        for broken in broken_replies(whole):
            if words := said_against(talk, ask, answers | {BROKEN: broken}):
                assert f"'{BROKEN}'" in words, (ask.name, words)
                assert words.isprintable()
                refusals += 1
                continue
            assert isinstance(broken, Reply), ask.name
            for name, part in whole.sums.items() if REQUESTS[ask.name].summed else ():
                assert is_a_sum(broken.sums[name], part), (ask.name, name)
                assert name not in rules or rules[name](broken.sums[name]), (ask.name, name)
    assert refusals > 100


LIES = (-1.0, 1.0, 0.5, 1e9)


def test_what_no_people_have_is_refused_in_what_came_later(later):
    """Where a request says what is true of its numbers, others are refused: counts below 0, say."""
    refused = set()
    for talk, ask, answers in later.exchanges.values():
        whole = answers[BROKEN]
        for name, holds in REQUESTS[ask.name].rules().items():
            lies = [np.full(part.shape, lie) for part in [whole.sums.get(name, np.zeros(0))] if part.size
                    for lie in LIES]
            for lie in lies:
                if not holds(lie):
                    broken = replace(whole, sums=whole.sums | {name: lie})
                    words = said_against(talk, ask, answers | {BROKEN: broken})
                    assert words.startswith(f"site '{BROKEN}' answered with '{name}' of numbers that no people have")
                    refused.add(name)
    assert {"withheld", "failed", "people"} <= refused


def test_a_lie_that_no_check_can_know_ends_what_came_later_in_words_or_in_a_result(later):
    """Of the questions that only such studies have: a run of the coordinator with each false number."""
    ends, wrong = Counter(), set()
    for request, reply in firsts(later.said):
        for name, part in reply.sums.items() if asked(request) in later.theirs else ():
            for lie in (np.zeros_like(part), -part, np.full_like(part, -1), np.full(part.shape, 1e150)):
                broken = replace(reply, sums=reply.sums | {name: lie})
                end, words = judged(Replay(later.said, ("a", BROKEN), {(request.round, BROKEN): broken}), later.plan,
                                    request)
                ends[end] += 1
                wrong |= {(asked(request), name, words)} if words else set()
    assert not wrong, sorted(wrong)
    assert ends, "such studies have questions of their own"


def test_effects_of_other_people_than_a_site_told_of_are_refused(later):
    """Of nobody, of fewer, of more, and of as many in other arms: averages would be over people whom nobody counted."""
    [(request, reply)] = [(request, reply) for request, reply in firsts(later.said)
                          if asked(request) in REQUESTS and REQUESTS[asked(request)].phase == "effects"]
    people = reply.sums["people"]
    for lie in (0 * people, people - 1, 2 * people, people[[0, *range(len(people) - 1, 0, -1)]]):
        broken = replace(reply, sums=reply.sums | {"people": lie})
        with pytest.raises(MessageError, match=f"site '{BROKEN}' answered with effects of {lie[0]} people") as problem:
            ran(Replay(later.said, ("a", BROKEN), {(request.round, BROKEN): broken}), later.plan)
        assert problem.value.site == BROKEN
