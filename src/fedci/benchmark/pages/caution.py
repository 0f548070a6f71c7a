"""When not to use FedCI: what the figures say, and what holds whatever they say."""

from __future__ import annotations

from collections.abc import Sequence

from fedci.benchmark.pages.coverage import LOW
from fedci.benchmark.pages.markdown import number, share, title
from fedci.benchmark.pages.standing import Standing
from fedci.benchmark.pages.summary import Summaries, paired_to_ours

OPENING = "Not, not alone, or not yet, where one of these holds:\n"
FIXED = """\
- **Several events compete, or happen again and again.** Outcomes are numbers, 0 and 1, the time to one event, or a
  count, each with a law of its own ([outcomes](outcomes.md)). Who leaves by another event counts as followed no longer.
- **Treatment is a dose, or changes with time.** It is one of two arms, or of [several](arms.md); the figures here are
  of two.
- **Sites are small or few and must hold to the policy `standard`.** It asks for three sites, 50 people at each and 20
  in each arm, and for several people for every number told: most studies of fewer than thousands of people are refused
  before anything leaves ([what is protected](data-protection.md)). The figures here are made without it.
- **What decided the treatment was not recorded.** Neither FedCI nor any peer repairs that; the report says how strong
  it would have to be ([diagnostics](diagnostics.md)).
- **Nobody looks at the diagnostics.** Effects for people unlike anybody treated, or anybody untreated, are the model's
  word alone.
"""
TREES = ("A truth that is a deep tree, thresholds within thresholds, is for trees: FedCI sees it through a few dozen "
         "landmarks.")


def section(summaries: Summaries, standings: Sequence[Standing]) -> str:
    """Reasons, those that the figures give first."""
    measured = [_combined_rows(standings), _averages(summaries, standings), _intervals(standings), _haste(standings)]
    return "\n".join([OPENING, "".join(filter(None, measured)) + FIXED])


def _combined_rows(standings: Sequence[Standing]) -> str:
    worst_first = sorted((s for s in standings if s.loses), key=lambda standing: -standing.best.relative)
    named = [f"{title(s.ours.group.dataset)} ({s.best.method}: FedCI has {number(s.best.relative)} times its error)"
             for s in worst_first]
    if named:
        words = f"then a peer may be the better choice, as on {', '.join(named)}"
    else:
        words = "though no peer was better on any data set here, it is less trouble"
    return f"- **The rows may be brought together**: {words}. {TREES}\n" if standings else ""


def _averages(summaries: Summaries, standings: Sequence[Standing]) -> str:
    """By the error of the ATE, over the same replications."""
    pairs = [[paired_to_ours(summaries, peer.summary.group, "ate_error") for peer in s.peers] for s in standings]
    compared = [found for each in pairs if (found := [pair for pair in each if pair])]
    ahead = sum(any(pair.difference < 0 for pair in found) for found in compared)
    return (f"- **Only the average effect is asked for, and the rows may be brought together.** By the error of the "
            f"ATE some peer is better on {ahead} of {len(compared)} data sets.\n") if ahead else ""


def _intervals(standings: Sequence[Standing]) -> str:
    narrow = [f"{title(s.ours.group.dataset)} ({share(s.coverage.mean)})" for s in standings
              if s.coverage.count and s.coverage.mean < LOW]
    return (f"- **A person's 95% interval must hold in 95 cases of 100, whatever the truth.** It holds too rarely on "
            f"{', '.join(narrow)}.\n") if narrow else ""


def _haste(standings: Sequence[Standing]) -> str:
    """A fit's rounds, each of which asks every site."""
    rounds = [s.ours.of("rounds").mean for s in standings if s.ours.of("rounds").count]
    return (f"- **Sites can be asked once, not again and again.** A fit took {min(rounds):.0f} to {max(rounds):.0f} "
            f"rounds here, and each asks every site twice. The preset `few` asks eight times in all, of "
            f"outcomes that are numbers or 0 and 1 ([how](model.md#few-exchanges)).\n") if rounds else ""
