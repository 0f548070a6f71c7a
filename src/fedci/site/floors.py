"""A site's own policy, `site-policy.toml`: what it asks of any study, and what its operator has loosened, with reasons.

    site-policy.toml   min_cell = 10 …           every value of a policy, one line each, explained; `standard`'s else
                       [loosened.min_cell]       value, reason, when: one table for each value looser than `standard`

It stands beside the site's kits (or where `--policy` or FEDCI_SITE_POLICY says), so it holds for all studies of the
site and nobody who makes a kit can write it. A value may be made stricter by hand; one that is looser than `standard`
without its reason is refused. Without the file a site on a network holds to `standard`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from fedci.errors import FloorError, OutputError, StudyError, UsageError
from fedci.files import whole_file
from fedci.site.ledger import NOTE, Entry, Ledger, Left, canonical, sha256
from fedci.study.options import nearest
from fedci.study.policy import POLICIES, Policy, policy
from fedci.study.strictness import DIRECTIONS, RULES, looser, looser_fields, shown
from fedci.study.study import Study
from fedci.study.toml import lines, parsed, text_of

FILE = "site-policy.toml"
VARIABLE = "FEDCI_SITE_POLICY"
FIELDS = tuple(key for key, rule in RULES.items() if rule.has_floor)
"""Of which a site has a floor."""
STANDARD = POLICIES["standard"]
BOUNDS = {"outcome_range": (0.0, 1.0), "effect_bound": 1.0, "gradient_clip": 1.0}
"""A floor of ε needs no bounds: the study declares its own."""
PHASE = "policy"
"""Of the ledger's lines on what a site lets through."""


class Loosening(NamedTuple):
    """A value looser than `standard`, by an act of the site's operator."""

    value: Any
    reason: str
    when: str


@dataclass(frozen=True)
class Floors:
    """What a site asks of any study."""

    policy: Policy = STANDARD
    loosened: Mapping[str, Loosening] = field(default_factory=dict)
    path: Path | None = None
    """Where it was read; none: there is no file, and `standard` holds."""

    @property
    def place(self) -> str:
        return str(self.path) if self.path else f"no {FILE}"

    def values(self) -> dict[str, Any]:
        return {key: getattr(self.policy, key) for key in FIELDS}

    def plain(self) -> dict[str, Any]:
        """As the ledger holds it: floors, and every loosening with its reason."""
        return {"floors": {key: list(value) if isinstance(value, tuple) else value
                           for key, value in self.values().items()},
                "loosened": {key: {"value": shown(loosening.value), "reason": loosening.reason, "when": loosening.when}
                             for key, loosening in self.loosened.items()}}


# --- the file


def place_of(kit: Path | None, named: Path | None = None) -> Path:
    """Where a site's policy stands: as named, else as FEDCI_SITE_POLICY says, else beside the kit (or here)."""
    said = os.environ.get(VARIABLE)
    return named or (Path(said) if said else (kit.resolve().parent if kit else Path()) / FILE)


def floors_at(kit: Path | None, named: Path | None = None) -> Floors:
    """The site's floors; those of `standard` where no file was named and none stands beside the kit."""
    path = place_of(kit, named)
    if not path.exists() and not named and not os.environ.get(VARIABLE):
        return Floors()
    return read_floors(path)


def read_floors(path: Path) -> Floors:
    """StudyError where the file is none; FloorError where a value was loosened without its reason."""
    if path.exists() and path.stat().st_mode & 0o022:
        raise OutputError(f"the site's policy '{path}' can be written by others: run `chmod go-w {path}`")
    place = f"the site's policy '{path}'"
    values = parsed(text_of(path), place)
    base, acts = values.pop("base", "standard"), values.pop("loosened", {})
    if not isinstance(base, str) or not isinstance(acts, dict):
        raise StudyError(f"{place}: base is a policy's name and [loosened] holds tables. Make the file anew with "
                         f"`fedci site policy`")
    for key in [*values, *acts]:
        _check_field(key)
    floors = _floors(base, {key: _plain(value) for key, value in values.items()})
    loosened = {key: _loosening(place, key, entry) for key, entry in acts.items()}
    return _checked(Floors(floors, {key: act for key, act in loosened.items() if _is_loose(floors, key)}, path))


def _floors(base: str, values: Mapping[str, Any]) -> Policy:
    """The base with changes; the name of a site's floors says nothing, so that it never stands in the way."""
    return policy(policy(base).model_dump() | {"name": "simulation"} | BOUNDS | dict(values))


def _loosening(place: str, key: str, entry: Any) -> Loosening:
    given = entry if isinstance(entry, dict) else {}
    reason, when = given.get("reason"), given.get("when")
    if not isinstance(reason, str) or not reason.strip() or not isinstance(when, str):
        raise FloorError(f"{place}: [loosened.{key}] has no reason. {_remedy(key, given.get('value', '…'))}")
    return Loosening(_plain(given.get("value")), reason, when)


def _checked(floors: Floors) -> Floors:
    """Every value looser than `standard` is one that was loosened on purpose, and to this value."""
    for key, value in floors.values().items():
        known = floors.loosened.get(key)
        if _is_loose(floors.policy, key) and (known is None or looser(key, value, known.value)):
            raise FloorError(f"the site's policy '{floors.path}': {key} = {shown(value)} is looser than 'standard' "
                             f"({shown(getattr(STANDARD, key))}), and the file holds no reason for it. "
                             f"{_remedy(key, value)}")
    return floors


def _remedy(key: str, value: Any) -> str:
    return f'Run `fedci site policy --allow {key}={shown(value)} --reason "…"`, or take the line out'


def _is_loose(floors: Policy, key: str) -> bool:
    return key in looser_fields(vars(floors), vars(STANDARD))


def _check_field(key: str) -> None:
    if key not in FIELDS:
        raise StudyError(f"the site's policy: unknown key {key!r}{nearest(key, FIELDS)}; `fedci site policy` lists all")


def _plain(value: Any) -> Any:
    """The word "none" is Python's None, which TOML lacks."""
    return None if isinstance(value, str) and value == "none" else tuple(value) if isinstance(value, list) else value


def write_floors(floors: Floors, path: Path) -> Floors:
    text = [f"# What this site asks of any study. A study may be stricter; where it is looser, the site's value holds\n"
            f"# or the site refuses. A value may be made stricter here; to loosen one, run\n"
            f"#     fedci site policy --policy {path.name} --allow KEY=VALUE --reason \"why\"\n"]
    for key, value in floors.values().items():
        text.append(f"\n# {RULES[key].words}; {DIRECTIONS[RULES[key].direction]}\n{lines({key: value})}")
    for key, loosening in floors.loosened.items():
        text.append(f"\n[loosened.{key}]\n{lines(loosening._asdict())}")
    try:
        with whole_file(path) as file:
            file.write("".join(text).encode())
    except OSError as problem:
        raise OutputError(f"the site's policy '{path}' cannot be written: {(problem.strerror or '').lower()}") from None
    return replace(floors, path=path)


# --- the operator's acts


def value_of(text: str) -> tuple[str, Any]:
    """(key, value) from KEY=VALUE as typed; a word needs no quotes."""
    key, equals, said = text.partition("=")
    if not (key and equals and said):
        raise UsageError(f"{text!r}: needs KEY=VALUE, for example min_cell=5")
    _check_field(key)
    try:
        return key, _plain(tomllib.loads(f"x = {said}")["x"])
    except tomllib.TOMLDecodeError:
        return key, _plain(said)


def based_on(base: str, reason: str = "") -> Floors:
    """Floors of a shipped policy. Of one looser than `standard` every such value is loosened, for one reason."""
    if base not in POLICIES or base == "custom":
        raise UsageError(f"--base {base!r}: needs 'standard' or 'simulation'")
    return _loosened(Floors(_floors(base, {})), [key for key in FIELDS if _is_loose(POLICIES[base], key)], reason)


def required(floors: Floors, changes: Mapping[str, Any]) -> Floors:
    """Stricter values; one looser than `standard` needs `allowed`."""
    new = replace(floors, policy=_changed(floors, changes))
    for key in changes:
        if _is_loose(new.policy, key):
            raise UsageError(f"{key} = {shown(changes[key])} is looser than 'standard' "
                             f"({shown(getattr(STANDARD, key))}): use --allow and say the --reason")
    return replace(new, loosened={key: loosening for key, loosening in floors.loosened.items() if key not in changes})


def allowed(floors: Floors, changes: Mapping[str, Any], reason: str) -> Floors:
    """Looser values, with the reason that the ledger will hold."""
    new = replace(floors, policy=_changed(floors, changes))
    still_loose = {key: loosening for key, loosening in floors.loosened.items() if _is_loose(new.policy, key)}
    return _loosened(replace(new, loosened=still_loose), [key for key in changes if _is_loose(new.policy, key)], reason)


def _changed(floors: Floors, changes: Mapping[str, Any]) -> Policy:
    return policy(floors.policy.model_dump() | {"name": "simulation"} | BOUNDS | dict(changes))


def _loosened(floors: Floors, keys: list[str], reason: str) -> Floors:
    if keys and not reason.strip():
        raise UsageError(f"{', '.join(keys)}: looser than 'standard', which is an act to answer for. Say why with "
                         f"--reason")
    when = datetime.now(UTC).isoformat(timespec="seconds")
    acts = {key: Loosening(getattr(floors.policy, key), " ".join(reason.split()), when) for key in keys}
    return replace(floors, loosened=dict(floors.loosened) | acts)


# --- what holds, and who set it


class Held(NamedTuple):
    """One value in force at a site."""

    key: str
    study: Any
    site: Any
    holds: Any
    """None where the two cannot both be met: the site refuses."""
    by: str
    """Who set it."""


def held(study: Study, floors: Floors) -> Iterator[Held]:
    """Every value, the study's, the site's, the one that holds and who set it."""
    agreed, site = study.agreed_policy, floors.policy
    refused, now = agreed.disagreements(site), agreed.under(site)
    for key in RULES:
        ours, theirs = (getattr(site, key) if key in FIELDS else None), getattr(agreed, key)
        if key in refused:
            yield Held(key, theirs, ours, None, "refused: all parties must agree")
        elif key in FIELDS:
            yield Held(key, theirs, ours, getattr(now, key), _who(key, agreed, floors))
        else:
            yield Held(key, theirs, None, theirs, "the study")


def _who(key: str, agreed: Policy, floors: Floors) -> str:
    if looser(key, getattr(agreed, key), getattr(floors.policy, key)):
        return "the site" if floors.path else "the site ('standard')"
    if key in floors.loosened:
        return f"the study; the site allows it: {floors.loosened[key].reason}"
    return "both" if getattr(agreed, key) == getattr(floors.policy, key) else "the study"


def explained(floors: Floors) -> Iterator[tuple[str, str, str, str]]:
    """(key, value, which way is stricter, what it says), with the reason where the operator loosened it."""
    for key, value in floors.values().items():
        act = floors.loosened.get(key)
        words = RULES[key].words + (f". Loosened from {shown(getattr(STANDARD, key))} on {act.when}: {act.reason}"
                                    if act else "")
        yield key, shown(value), DIRECTIONS[RULES[key].direction], words


# --- in the ledger


def note_floors(ledger: Ledger, floors: Floors) -> Entry | None:
    """The line on what this site lets through, before anything leaves under it. None where the last such line says the
    same, or there is none and nothing was loosened."""
    notes = [entry["notes"] for entry in ledger.entries if entry["phase"] == PHASE and entry["reply"] == NOTE]
    now = floors.plain()
    if now == (notes[-1] if notes else Floors().plain()):
        return None
    acts = "; ".join(f"{key} = {shown(act.value)} ({act.reason})" for key, act in floors.loosened.items())
    return ledger.append(Left(run="", round=0, phase=PHASE, request="", request_sha256="", reply=NOTE,
                              reply_sha256=sha256(canonical(now)), bytes=0, notes=now,
                              reason=f"the site's own policy; looser than 'standard': {acts or 'nothing'}"))
