"""Whether a change of the code changed a number: fits of every kind, recorded before it and after it, compared.

    python assurance/same_numbers.py record DIR [CASE …]  fit every case (or these), each result saved in DIR/CASE
    python assurance/same_numbers.py compare OLD NEW      every number of NEW's cases; exit 1 beyond 1e-12 relative
    python assurance/same_numbers.py load OLD             results of an earlier version read, and asked again

Only what users have is used (FedCI, Study, Source, Result and the files of a result), so that one script runs on both
sides of any change. Seconds, dates and names of runs are left out.
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd

from fedci import FedCI, Result, Source, Study

LIMIT = 1e-12
TIMES = {"seconds", "made", "versions", "run", "traffic", "study_hash", "files", "digest"}
"""What differs between two runs of the same: times, names, and the digests of files that hold them."""
LARGE = {"exact_rows": 60, "inducing": 24}


def frame(rows: int, seed: int, gaps: bool = False) -> pd.DataFrame:
    """A hospital's table; with gaps, a tenth of one column is missing."""
    rng = np.random.default_rng((seed, 4))
    age, bmi = rng.uniform(30, 90, rows), rng.normal(26, 4, rows)
    sex, smoker = rng.integers(0, 2, (2, rows))
    w = (rng.uniform(size=rows) < 1 / (1 + np.exp(-(age - 60) / 20))).astype(int)
    y = 0.05 * bmi + 0.02 * age + w * (1 + np.sin(age / 15) + 0.5 * sex) + 0.3 * rng.normal(size=rows)
    control = 0.1 * bmi + 0.2 * rng.normal(size=rows)
    if gaps:
        bmi[rng.uniform(size=rows) < 0.1] = np.nan
    return pd.DataFrame({"age": age, "bmi": bmi, "sex": sex, "smoker": smoker, "w": w, "y": y, "control": control})


def study(**changes) -> Study:
    covariates = {"age": {}, "bmi": {}, "sex": {"type": "binary"}, "smoker": {"type": "binary"}}
    return Study(**({"treatment": "w", "outcome": "y", "covariates": covariates, "policy": "simulation"} | changes))


def options(rounds: int, draws: int, **model) -> dict:
    return {"optimiser": {"rounds": rounds}, "prediction": {"draws": draws}} | ({"model": model} if model else {})


MASKED = {"name": "simulation", "secure_sum": True}
REFUTERS = {"refute": True, "negative_control": "control"}
CASES: dict[str, tuple[dict, tuple[int, ...], bool]] = {
    "default": ({"diagnostics": REFUTERS}, (60, 50, 70), False),
    "default-masked": ({"policy": MASKED, "diagnostics": {"refute": ["placebo"]}}, (60, 50, 70), False),
    "default-masked-silent": ({"policy": MASKED | {"site_effects": False}, "options": options(8, 64)}, (60, 50, 70),
                              False),
    "default-standard": ({"policy": "standard", "options": options(10, 64, directions=1, knots=3)}, (160, 200), False),
    "default-gaps": ({"missing": "impute", "options": options(12, 64)}, (60, 50), True),
    "default-point": ({"options": options(12, 64, posterior="point", tails=None, common=False, directions=3)}, (60, 50),
                      False),
    "default-one-site": ({"options": options(12, 64)}, (120,), False),
    "large": ({"options": options(25, 64, **LARGE)}, (300, 260), False),
    "large-staged": ({"options": {"optimiser": {"rounds": 40, "first_rows": 60}, "prediction": {"draws": 64},
                                  "model": LARGE}}, (700, 650), False),
    "large-masked": ({"policy": MASKED, "options": options(12, 64, **LARGE)}, (300, 50, 260), False),
    "classic": ({"preset": "classic", "diagnostics": REFUTERS}, (60, 50, 70), False),
    "classic-masked": ({"preset": "classic", "policy": MASKED}, (60, 50, 70), False),
    "classic-gaps": ({"preset": "classic", "missing": "impute", "options": options(20, 64)}, (60, 50), True),
    "classic-apart": ({"preset": "classic", "options": options(20, 64, inter_dependency=False)}, (60, 50), False),
    "paper": ({"preset": "paper", "options": options(6, 32)}, (60, 50, 70), False),
    "paper-masked": ({"preset": "paper", "policy": MASKED, "options": options(4, 32)}, (60, 50, 70), False),
    "noised": ({"preset": "classic", "covariates": {"age": {"range": [20, 100]}, "bmi": {"range": [0, 60]}},
                "options": {"optimiser": {"rounds": 10, "name": "adam", "tolerance": 0.0}, "prediction": {"draws": 32}},
                "policy": {"name": "simulation", "epsilon": 5.0, "delta": 1e-5, "outcome_range": (-10.0, 20.0),
                           "effect_bound": 10.0, "gradient_clip": 1e4, "noised": ("moments", "effects", "gradients")}},
               (60, 50, 70), False),
}


def record(folder: Path, *names: str) -> None:
    secrets.token_hex = lambda size: "0" * 2 * size  # the noise of a round depends on the run's name, which is drawn
    for name, (changes, sizes, gaps) in CASES.items():
        if names and name not in names:
            continue
        sources = [Source(f"site-{s}", frame(n, s, gaps)) for s, n in enumerate(sizes)]
        result = FedCI(study(**changes), seed=3).fit(sources)
        result.save(folder / name, force=True)
        np.savez(folder / name / "asked.npz", **asked(result))
        print(name, len(numbers(folder / name)), "numbered things", flush=True)
        jax.clear_caches()  # compiled programs take places in the process's memory map, of which Linux gives 65,530


def asked(result: Result) -> dict[str, np.ndarray]:
    """What a fitted result answers about new people, and in words."""
    new = frame(40, 77).drop(columns=["w", "y", "control"])[[c.name for c in result.study.covariates]]
    found = {"elsewhere": _posterior(result, new, None), "words": _words(result.summary())}
    for site in result.sites:
        found[f"at/{site}"] = _posterior(result, new, site)
        found[f"noisy/{site}"] = np.stack(result.effect_interval(new, site, outcome_noise=True))
        if result.diagnostics is not None and result.diagnostics.overlap is not None:
            found[f"bounds/{site}"] = np.stack(result.effect_bounds(new, 1.5, site))
    drivers = result.drivers()
    return found if drivers is None else found | {"drivers": drivers[["outcome", "effect"]].to_numpy()}


def _posterior(result: Result, new: pd.DataFrame, site: str | None) -> np.ndarray:
    posterior = result.effect_posterior(new, site)
    return np.stack([posterior.mean, posterior.sd, *posterior.interval(0.1)])


def _words(text: str) -> np.ndarray:
    """The summary's text without its line of seconds."""
    lines = [line for line in text.splitlines() if " s, seed " not in line]
    return np.frombuffer("\n".join(lines).encode(), np.uint8)


def numbers(folder: Path) -> dict[str, np.ndarray]:
    """Every number in a result's files, by where it stands."""
    found: dict[str, np.ndarray] = {}
    for file in sorted(folder.rglob("*.npz")):
        with np.load(file) as arrays:
            found |= {f"{file.relative_to(folder)}:{name}": arrays[name] for name in arrays if name != "diagnostics"}
    for file in sorted(folder.rglob("*.csv")):
        table = pd.read_csv(file)
        found |= {f"{file.relative_to(folder)}:{name}": table[name].to_numpy() for name in table if name not in TIMES}
    for name in ("result.json", "diagnostics.json"):
        if (folder / name).exists():
            found |= dict(_leaves(json.loads((folder / name).read_text()), name))
    return found


def _leaves(tree, place: str):
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key not in TIMES:
                yield from _leaves(value, f"{place}:{key}")
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _leaves(value, f"{place}:{number}")
    else:
        yield place, np.asarray(np.nan if tree is None else tree)


def compare(old: Path, new: Path) -> int:
    """How many things differ by more than LIMIT."""
    wrong = 0
    for case in sorted(one.name for one in new.iterdir() if one.is_dir()):
        before, after = numbers(old / case), numbers(new / case)
        differences = {name: _difference(before[name], after[name]) for name in before.keys() & after.keys()}
        odd = sorted(before.keys() ^ after.keys()) + [name for name, size in differences.items() if not size <= LIMIT]
        equal = sum(size == 0.0 for size in differences.values())
        print(f"{case:24} {len(differences):5} things, {equal:5} to the bit, largest difference "
              f"{max(differences.values(), default=0.0):.1e}"
              + "".join(f"\n    {name}: {differences.get(name)}" for name in odd[:6]))
        wrong += len(odd)
    return wrong


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    """The largest, relative to the array's largest number; inf where shape or kind differ."""
    if a.shape != b.shape:
        return np.inf
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(a.astype(str), b.astype(str)) else np.inf
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    a, b = a.astype(float), b.astype(float)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf
    return float(np.nanmax(np.abs(a - b)) / max(np.nanmax(np.abs(a)), 1e-300))


def load(old: Path) -> int:
    wrong = 0
    for case in sorted(one for one in old.iterdir() if one.is_dir()):
        with np.load(case / "asked.npz") as file:
            before, after = dict(file), asked(Result.load(case))
        worst = max(_difference(before[name], after[name]) for name in before)
        print(f"{case.name:24} loaded; largest difference {worst:.1e}")
        wrong += not (worst <= LIMIT and before.keys() == after.keys())
    return wrong


if __name__ == "__main__":
    command, folder, *more = sys.argv[1:]
    if command == "record":
        sys.exit(record(Path(folder), *more))
    sys.exit(1 if {"compare": compare, "load": load}[command](Path(folder), *map(Path, more)) else 0)
