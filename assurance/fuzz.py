"""Coverage-guided fuzzing with atheris: `python assurance/fuzz.py KIND [SECONDS]`, KIND one of messages, study, csv.

Starts from tests/corpus/KIND, keeps what reaches new code in a folder of its own, and ends at the first input that is
neither answered nor refused with an error of ours, or that takes more than 2 GiB. The corpus in the repository is the
distilled rest of such runs; add to it by hand what is worth keeping.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

with atheris.instrument_imports(include=["fedci"]):
    from fuzz_targets import TARGETS

MEMORY_MB = 2048


def main() -> None:
    kind, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "20"
    target = TARGETS[kind]
    with tempfile.TemporaryDirectory() as found:
        atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-timeout=10", f"-rss_limit_mb={MEMORY_MB}",
                       "-max_len=4096", "-seed=1", "-print_final_stats=1", f"-artifact_prefix={found}/", found,
                       str(ROOT / "tests" / "corpus" / kind)], lambda data: target(data) and None)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
