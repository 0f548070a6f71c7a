"""Effects that stay sealed until somebody has read the diagnostics: who opens them, when and why."""

from __future__ import annotations

from datetime import UTC, datetime

from fedci.diagnostics.findings import Diagnostics
from fedci.errors import UsageError


def check_open(blinded: bool) -> None:
    if blinded:
        raise UsageError("the study is blinded: its effects are sealed until somebody has read the diagnostics "
                         "(print(result.diagnostics)) and opens them with result.unblind(by=…), or "
                         "`fedci unblind RESULT --by NAME`")


def opened(sealed: Diagnostics | None, by: str, reason: str) -> dict[str, str]:
    """What is kept of an opening, given the diagnostics as they show while sealed; where one is a problem, a reason is
    asked for."""
    problems = sealed.problems if sealed is not None else ()
    if not by.strip():
        raise UsageError("say who opens the effects: unblind(by='your name')")
    if problems and not reason.strip():
        named = ", ".join(problem.name for problem in problems)
        raise UsageError(f"the diagnostics name problems: {named}. Mend the study, or give the reason why its "
                         f"effects are opened all the same: unblind(by=…, reason=…), --reason")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"at": now, "by": by.strip(), "reason": reason.strip()}
