"""One study by whatever version of fedci stands first on the path; for `beside`, which copies this module out of the
package: it knows of fedci only what 0.1.0 had too.

    python -m any_version PLAN      PLAN: JSON of `study` (arguments of Study), `tables` (name → CSV), `new` (a CSV)

Prints JSON: version, rounds, MB a site (both ways), the average effect, seconds cold (import, reading, fit,
diagnostics, effects of all and of new people) and warm (the fit and what follows once more).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def measure(plan: dict[str, Any]) -> dict[str, Any]:
    start = _now()
    import pandas as pd

    from fedci import FedCI, Source, Study, __version__

    study = Study(**plan["study"])
    sources = [Source(name, pd.read_csv(path)) for name, path in plan["tables"].items()]
    new = pd.read_csv(plan["new"])

    def once() -> Any:
        result = FedCI(study, seed=0).fit(sources)
        return result, result.ate(), result.effect(new)

    once()
    cold = _now()
    result, ate, _ = once()
    warm = _now()
    told = sum(traffic.sent + traffic.received for traffic in result.traffic.values())
    return {"version": __version__, "rounds": len(result.outcome.fit.rounds),
            "cold": cold[0] - start[0], "warm": warm[0] - cold[0], "cold_cpu": cold[1] - start[1],
            "warm_cpu": warm[1] - cold[1], "MB": told / len(sources) / 1e6, "ate": float(ate.mean)}


def _now() -> tuple[float, float]:
    """Seconds by the clock, and of all cores that this process had."""
    return time.perf_counter(), time.process_time()


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
