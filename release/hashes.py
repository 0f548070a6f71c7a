"""Names, versions and SHA-256 of all that an installation takes: from pip's own report of what it would install.

    pip install --dry-run --ignore-installed --report report.json -c constraints.txt '.[all]'
    python release/hashes.py report.json > constraints-hashed.txt

    pip install --require-hashes -r constraints-hashed.txt && pip install --no-deps fedci-….whl

Hashes are of the files for one platform and Python, which the head names; another makes its own in the same way.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any


def lines(report: dict[str, Any]) -> list[str]:
    about = report["environment"]
    head = (f"# For Python {about['python_version']} on {about['sys_platform']} {about['platform_machine']}: "
            f"pip install --require-hashes -r constraints-hashed.txt (release/hashes.py made it)")
    return [head, *sorted(_line(one) for one in report["install"] if not _is_ours(one))]


def _is_ours(one: dict[str, Any]) -> bool:
    return one["metadata"]["name"] == "fedci"


def _line(one: dict[str, Any]) -> str:
    name = re.sub(r"[-_.]+", "-", one["metadata"]["name"]).lower()
    digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
    return f"{name}=={one['metadata']['version']} --hash=sha256:{digest}"


if __name__ == "__main__":
    print("\n".join(lines(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
