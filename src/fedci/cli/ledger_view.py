"""`fedci ledger`: what left a site, and whether its record is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from fedci.bounded import json_file
from fedci.errors import OutputError
from fedci.site import ledger, replay
from fedci.site.floors import PHASE


def show_ledger(folder: Path | str, console: Console | None = None, as_json: bool = False) -> None:
    """Print the ledger's table and its head (or JSON); OutputError where there is none, or its chain is broken."""
    path = Path(folder)
    if not any((path / name).exists() for name in (ledger.LEDGER, ledger.HEAD)):
        raise OutputError(f"'{path}' holds no ledger ({ledger.LEDGER}): give the folder in which the site runs. "
                          f"Before a site's first answer there is none")
    entries = ledger.read(path)
    out = console or Console()
    if as_json:
        facts = {"count": len(entries), "head": ledger.head_of(entries).hash, "to": _recipient(path),
                 "numbers_told_per_person": {run: share.each for run, share in ledger.per_person(entries).items()},
                 "phases": [total._asdict() for total in ledger.totals(entries)],
                 "policy": [{"time": entry["time"], **entry["notes"]} for entry in _on_policy(entries)]}
        print(json.dumps(facts, indent=2), file=out.file)
        return
    for part in ledger.show(entries):
        out.print(part, markup=False, highlight=False)
    said = [f"run {run}: {told_of.numbers:,} numbers told of {told_of.people:,} people here, {told_of.each:,.3g} for "
            f"each"
            for run, told_of in ledger.per_person(entries).items()]
    said += [f"{entry['time']}  {entry['reason']}" for entry in _on_policy(entries)]
    if to := _recipient(path):
        where = f"at {to['host']}:{to['port']}" if to["host"] else "by files"
        said.append(f"to the coordinator {where}, study {to['study']}")
    said += [f"the chain is whole: {len(entries)} {'entry' if len(entries) == 1 else 'entries'}",
             f"head {ledger.head_of(entries).hash}"]
    for line in said:
        out.print(line, markup=False, highlight=False)


def show_replay(folder: Path | str, data: str, console: Console | None = None, as_json: bool = False) -> None:
    """Recompute what left, and say so; OutputError names the first line that differs."""
    from fedci.network import kit, party

    lines = list(party.audited(kit.read(folder, "site"), data))
    skipped = sum(line.verdict == replay.LINKAGE for line in lines)
    wrong = next((line for line in lines if not line.ok), None)
    if wrong:
        raise OutputError(f"line {wrong.number} of the ledger in '{folder}' ({wrong.request}) does not come out of "
                          f"these data: {wrong.verdict}. Give the data, the version of fedci and the machine with "
                          f"which the site answered; if they are these, ask who changed what left")
    out = console or Console()
    if as_json:
        print(json.dumps({"ok": True, "same": len(lines) - skipped, "linkage": skipped}), file=out.file)
        return
    out.print(f"{len(lines) - skipped} answers come out of these data again, byte for byte; {skipped} of the linkage "
              f"are not recomputed (its keys are destroyed; the rows it left are the site's record)", markup=False,
              highlight=False, soft_wrap=True)
def _on_policy(entries: list[ledger.Entry]) -> list[ledger.Entry]:
    """What the site's operator let through, and when."""
    return [entry for entry in entries if entry["reply"] == ledger.NOTE and entry["phase"] == PHASE]


def _recipient(folder: Path) -> dict[str, Any] | None:
    """Who gets a site's answers: the coordinator that its kit was made for. None: the ledger stands outside a kit."""
    try:
        made = json_file(folder / "kit.json")
        return {"party": "coordinator", "host": made["host"], "port": made["port"],
                "study": made["study_hash"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
