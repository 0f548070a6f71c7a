"""The README's commands, as a new user types them, in an environment that holds nothing but the wheel.

    python release/readme.py BIN      BIN: the folder of that environment's programs

Blocks that say above themselves that they are not run are left out, as in the tests of the documentation.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    """Each line of each block that is run, without what is said behind it."""
    return [line.partition("  #")[0].strip() for comment, block in BLOCK.findall(text)
            if not comment.startswith("not run: ") for line in block.splitlines() if line.strip()]


def main() -> None:
    programs = Path(sys.argv[1]).absolute()
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with tempfile.TemporaryDirectory() as folder:
        here = outside | {"PATH": f"{programs}:{outside['PATH']}", "FEDCI_SITE_STORE": f"{folder}/store"}
        where = subprocess.run([programs / "python", "-c", "import fedci; print(fedci.__file__)"], cwd=folder, env=here,
                               capture_output=True, text=True, check=True).stdout
        if "site-packages" not in where:
            raise SystemExit(f"fedci is read from {where.strip()}, not from the wheel")
        for line in commands(README.read_text(encoding="utf-8")):
            print(f"$ {line}", flush=True)
            if subprocess.run(["bash", "-c", line], cwd=folder, env=here, check=False).returncode:
                raise SystemExit(f"failed: {line}")


if __name__ == "__main__":
    main()
