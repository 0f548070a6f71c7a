"""What a release is made of: a CycloneDX 1.5 file from the metadata of the packages that are installed here.

    python release/sbom.py fedci all > dist/fedci.cdx.json

Of the package with these extras and all that they need, in this environment; no network is asked. The same environment
gives the same file.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement

SPACE = uuid.UUID("6f1d3c2e-5c0b-4f57-9d0e-0f5edc1a0001")
"""Names of files of ours, so that one of the same content has the same number."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """(package, extras) that a package needs here, with these extras of its own."""
    for line in metadata.requires(name) or ():
        one = Requirement(line)
        marker = one.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield canonical(one.name), frozenset(one.extras)


def closure(name: str, extras: frozenset[str]) -> dict[str, set[str]]:
    """Package → what it needs, of all that is reached; what is not installed (of another platform) is left out."""
    found: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    open_ = [(canonical(name), extras)]
    while open_:
        here = open_.pop()
        if here in seen:
            continue
        seen.add(here)
        found.setdefault(here[0], set())
        for package, more in needed(*here):
            if _version(package) is not None:
                found[here[0]] |= {package} - {here[0]}
                open_.append((package, more))
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def component(name: str) -> dict[str, Any]:
    about = metadata.metadata(name)
    version = metadata.version(name)
    licence = about.get("License-Expression") or next(
        (line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if line.startswith("License ::")),
        (about.get("License") or "").partition("\n")[0][:80])
    made: dict[str, Any] = {"type": "library", "bom-ref": ref(name), "name": name, "version": version,
                            "purl": ref(name)}
    if licence:
        made["licenses"] = [{"expression": licence}] if about.get("License-Expression") else [
            {"license": {"name": licence}}]
    return made


def ref(name: str) -> str:
    return f"pkg:pypi/{name}@{metadata.version(name)}"


def sbom(name: str, extras: frozenset[str]) -> dict[str, Any]:
    found = closure(name, extras)
    own = canonical(name)
    made: dict[str, Any] = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": component(own) | {"type": "application"}},
        "components": [component(one) for one in sorted(found) if one != own],
        "dependencies": [{"ref": ref(one), "dependsOn": sorted(map(ref, found[one]))} for one in sorted(found)]}
    number = uuid.uuid5(SPACE, json.dumps(made, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{number}"} | made


if __name__ == "__main__":
    package, *asked = sys.argv[1:] or ["fedci", "all"]
    print(json.dumps(sbom(package, frozenset(asked)), indent=1))
