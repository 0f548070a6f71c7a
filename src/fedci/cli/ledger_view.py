"""`fedci ledger`: what left a site, and whether its record is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from fedci.errors import OutputError
from fedci.site import ledger


def show_ledger(folder: Path | str, console: Console | None = None, as_json: bool = False) -> None:
    """Print the ledger's table and its head (or JSON); OutputError where there is none, or its chain is broken."""
    path = Path(folder)
    if not any((path / name).exists() for name in (ledger.LEDGER, ledger.HEAD)):
        raise OutputError(f"'{path}' holds no ledger ({ledger.LEDGER}): give the folder in which the site runs. "
                          f"Before a site's first answer there is none")
    entries = ledger.read(path)
    out = console or Console()
    if as_json:
        told = {"count": len(entries), "head": ledger.head_of(entries).hash, "to": _recipient(path),
                "phases": [one._asdict() for one in ledger.totals(entries)]}
        print(json.dumps(told, indent=2), file=out.file)
        return
    out.print(ledger.show(entries))
    if to := _recipient(path):
        out.print(f"to the coordinator at {to['host']}:{to['port']}, study {to['study']}", markup=False,
                  highlight=False, soft_wrap=True)
    count = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
    out.print(f"the chain is whole: {count}, head {ledger.head_of(entries).hash}", markup=False, highlight=False,
              soft_wrap=True)


def _recipient(folder: Path) -> dict[str, Any] | None:
    """Who gets a site's answers: the coordinator that its kit was made for. None: the ledger stands outside a kit."""
    try:
        made = json.loads((folder / "kit.json").read_text(encoding="utf-8"))
        return {"party": "coordinator", "host": made["host"], "port": made["port"],
                "study": made["study_hash"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None
