"""Where the figures come from: the commands that made them, what they ran on, and the versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def run_list(runs: Sequence[dict[str, Any]]) -> str:
    """Commands with what they ran on; versions once if all runs had the same."""
    if not runs:
        return ""
    versions = [_versions(run) for run in runs]
    same = len(set(versions)) == 1
    lines = [f"- {_run(run)}" + (f"; {text}\n" if text and not same else "\n")
             for run, text in zip(runs, versions, strict=True)]
    below = f"\nVersions: {versions[0]}.\n" if same and versions[0] else ""
    return "".join(lines) + below


def _run(run: dict[str, Any]) -> str:
    parts = [f"`{run.get('command', 'command not recorded')}`", *(
        form.format(run[key]) for key, form in
        (("started", "started {}"), ("seed", "seed {}"), ("cores", "cores: {}"), ("machine", "{}")) if key in run)]
    return ", ".join(parts)


def _versions(run: dict[str, Any]) -> str:
    versions = run.get("versions")
    return ", ".join(f"{name} {version}" for name, version in versions.items()) if isinstance(versions, dict) else ""
