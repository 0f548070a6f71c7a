"""What a site checks before it computes: its floors, rounds, its memory.

Each check returns nothing, or raises an error that names the site and the remedy.
"""

from __future__ import annotations

from fedci.errors import DisclosureError, FloorError
from fedci.model import padding
from fedci.model.families import model_of
from fedci.study.options import FitOptions
from fedci.study.strictness import RULES, shown
from fedci.study.study import Study


def check_floors(study: Study) -> None:
    """Of what no site can apply alone, the study asks for as much as this site does of any."""
    agreed, floors = study.agreed_policy, study.floors
    lacking = agreed.disagreements(floors) if floors else ()
    if lacking:
        values = "; ".join(f"{key} = {shown(getattr(agreed, key))}, and this site asks for "
                           f"{shown(getattr(floors, key))} ({RULES[key].words})" for key in lacking)
        raise FloorError(f"the study's policy '{agreed.name}' has {values}. All parties have to do the same, so a site "
                         f"cannot apply its floor alone{_of_nobody(study)}")


def _of_nobody(study: Study) -> str:
    """What only a person can decide: whose data these are. '' where the study does not call them simulated."""
    if study.agreed_policy.name != "simulation":
        return ""
    return (' (of people of nobody, as the study\'s policy says they are, it lets all through after `fedci site policy '
            '--base simulation --reason "simulated people"`)')


def check_rounds(study: Study, options: FitOptions) -> None:
    rounds, most = options.optimiser.rounds, study.policy.max_rounds
    if rounds > most:
        raise DisclosureError(f"the study has {rounds} rounds, the policy allows {most}. Lower optimiser.rounds")


UNHIDDEN = {
    "survival": "noise on whether the event happened would not hide when: how long a person was followed decides which "
                "of its rows stand in the sums",
    "count": "a count takes few values that lie far apart, and noise that hides one is not known to its likelihood"}
"""Why noise on outcomes of a type is refused."""


def check_noise(study: Study) -> None:
    """Of times and counts there is no noise on outcomes that would protect them and that a likelihood knows."""
    if study.policy.outcome_noise and study.outcome_type in UNHIDDEN:
        raise DisclosureError(f"policy.outcome_noise = {study.policy.outcome_noise:g} with a {study.outcome_type} "
                              f"outcome: {UNHIDDEN[study.outcome_type]}. Agree on outcome_noise = 0.0 in a [policy] of "
                              f"the name \"custom\", if that protection may be left out")


def check_memory(site: str, rows: int, d: int, options: FitOptions, outcome: str = "numeric",
                 intervals: int = 0, arms: int = 2) -> None:
    """As many indicators of missing values as columns, at most."""
    model = model_of(options.model, 2 * d, d, 1, outcome, intervals, arms)
    need, remedy = model.memory_needed(rows, options.optimiser.draws)
    padding.check_memory(site, rows, need, remedy)
