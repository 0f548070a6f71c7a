"""A result on disk: JSON, NPZ and CSV; no pickle. What a coordinator may keep, and each site's private part apart.

    result.json   study, options, verdict, versions, seed, site names          arrays.npz   Θ, draws, per-draw sums
    effects.csv   ATE, ATT, ATC, all and per site                              trace.csv    one line per round
    diagnostics.json   all diagnostics, readable without JAX (`diagnostics.findings`)
    sites/NAME/   rows.npz (the site's rows) and people.csv (its people's effects): mode 0600, the site's own

A blinded study's folder has no effects.csv and no people.csv, and diagnostics.json without what tells the effect, until
it is opened. The seal is one of procedure: arrays.npz holds the sums all the while.

A result is written beside its place and moved there when it is whole: a crash leaves the earlier one.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fedci.coordinator.coordinator import Effects, Fit, Layout, Outcome, Round
from fedci.diagnostics.findings import Diagnostics
from fedci.errors import OutputError
from fedci.files import check_folder, private_file
from fedci.model.families import model_of
from fedci.protocol.engine import Traffic
from fedci.result.result import Result
from fedci.site.people import People, Posterior
from fedci.site.prepared import Prepared, Units
from fedci.study.options import FitOptions, validated
from fedci.study.study import Study
from fedci.table.moments import Moments, Scales, SiteMoments
from fedci.table.table import Table, design_columns
from fedci.version import __version__

FORMAT = 1
FILES = ("result.json", "arrays.npz", "effects.csv", "trace.csv", "diagnostics.json", "sites")


def save_result(result: Result, folder: Path | str, force: bool = False) -> None:
    path = check_folder(folder, force)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path, prefix=".new-") as new:
            _write_all(result, Path(new))
            for name in FILES:
                _replace(Path(new) / name, path / name)
    except OSError as problem:
        raise OutputError(f"the result could not be written to '{path}': {problem.strerror}") from None


def _replace(new: Path, old: Path) -> None:
    if old.is_dir() and not old.is_symlink():
        shutil.rmtree(old)
    if new.exists():
        os.replace(new, old)
    else:
        old.unlink(missing_ok=True)  # of an earlier result


def _write_all(result: Result, folder: Path) -> None:
    (folder / "result.json").write_text(json.dumps(_facts(result), indent=2) + "\n", encoding="utf-8")
    np.savez(folder / "arrays.npz", allow_pickle=False, **_arrays(result.outcome))
    if not result.blinded:
        result.table().to_csv(folder / "effects.csv", index=False)
    if result.diagnostics is not None:
        result.diagnostics.write(folder / "diagnostics.json")
    _write_trace(result.outcome.fit.rounds, folder / "trace.csv")
    for name in result.people:
        _write_people(result, name, folder / "sites" / name)


def _facts(result: Result) -> dict[str, Any]:
    o = result.outcome
    return {"format": FORMAT, "made": result.made, "versions": dict(result.versions), "run": o.run, "seed": o.seed,
            "study": result.study.to_toml(), "study_hash": result.study.hash(),
            "options": o.options.model_dump(mode="json"), "sites": list(o.layout.sites),
            "verdict": o.fit.verdict, "objective": o.fit.objective, "jitters": o.fit.jitters,
            "excluded": o.excluded,
            "warnings": list(o.warnings), "seconds": o.seconds, "opened": result.opened and dict(result.opened),
            "traffic": {name: vars(seen) for name, seen in result.traffic.items()}}


def _arrays(o: Outcome) -> dict[str, np.ndarray]:
    layout, drawn = o.layout, o.effects
    arrays = {"theta": o.fit.theta, "u": layout.u, "pooled_u": layout.pooled_u, "indicators": layout.indicators,
              **{f"draws/{name}": value for name, value in drawn.draws.items()},
              **{f"scales/{name}": np.asarray(value) for name, value in layout.scales._asdict().items()}}
    arrays |= {f"total/{name}": value for name, value in (drawn.total or {}).items()}
    if o.diagnostics is not None:
        arrays["diagnostics"] = np.frombuffer(o.diagnostics.to_json().encode(), np.uint8)
    for site in layout.sites:
        arrays |= {f"sums/{site}/{name}": value for name, value in drawn.sums.get(site, {}).items()}
        arrays |= {f"moments/{site}/{name}": value for name, value in _moment_arrays(layout.moments[site]).items()}
    return arrays


def _moment_arrays(site: SiteMoments) -> dict[str, np.ndarray]:
    parts = {"x": site.x, "y0": site.y[0], "y1": site.y[1], "w": site.w}
    flat = {f"{name}{suffix}": value for name, part in parts.items()
            for suffix, value in (("", part.values), ("_count", part.count))}
    return flat | {"suppressed": site.suppressed, "incomplete": site.incomplete}


def _write_trace(rounds: Iterable[Round], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Round.__dataclass_fields__)
        writer.writerows([getattr(r, name) for name in Round.__dataclass_fields__] for r in rounds)


def _write_people(result: Result, site: str, folder: Path) -> None:
    """A site's rows and, unless they are sealed, their effects."""
    folder.mkdir(parents=True, mode=0o700)
    people = result.people[site]
    with private_file(folder / "rows.npz", "wb") as file:
        np.savez(file, allow_pickle=False, x=people.table.x, w=people.table.w, y=people.table.y, kept=people.rows,
                 jitter=np.asarray(people.q.jitter))
    if result.blinded:
        return
    with private_file(folder / "people.csv", "w") as file:
        result.ite(site).to_csv(file, index_label="row")


def load_result(folder: Path | str) -> Result:
    path = Path(folder)
    try:
        facts = json.loads((path / "result.json").read_text(encoding="utf-8"))
        _check_format(path, facts)
        with np.load(path / "arrays.npz", allow_pickle=False) as file:
            arrays = dict(file)
        return _result(path, facts, arrays)
    except FileNotFoundError:
        raise OutputError(f"'{path}' holds no result: it needs result.json and arrays.npz") from None
    except (KeyError, ValueError, TypeError, OSError, EOFError, BadZipFile):
        raise OutputError(f"the result in '{path}' is damaged or of another version of fedci") from None


def _check_format(path: Path, facts: dict[str, Any]) -> None:
    if facts["format"] != FORMAT:
        writer = facts.get("versions", {}).get("fedci", "unknown")
        raise OutputError(f"the result in '{path}' was written by fedci {writer} in format {facts['format']}; this is "
                          f"fedci {__version__}, which reads format {FORMAT}. Read it with the version that wrote it")


def _result(path: Path, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Result:
    study = Study.from_toml(facts["study"])
    outcome = _outcome(study, facts, arrays, path / "trace.csv")
    people = {name: _read_people(study, outcome, index, path / "sites" / name)
              for index, name in enumerate(facts["sites"]) if (path / "sites" / name / "rows.npz").exists()}
    traffic = {name: Traffic(**seen) for name, seen in facts["traffic"].items()}
    return Result(study=study, outcome=outcome, people=people, traffic=traffic, versions=facts["versions"],
                  made=facts["made"], opened=facts.get("opened"))


def _outcome(study: Study, facts: dict[str, Any], arrays: dict[str, np.ndarray], trace: Path) -> Outcome:
    options = validated(FitOptions, facts["options"], where="options of the result")
    sites, described = tuple(facts["sites"]), len(design_columns(study)[0])
    model = model_of(options.model, described + len(arrays["indicators"]), described, len(sites))
    scales = Scales(arrays["scales/x_mean"], arrays["scales/x_sd"],
                    float(arrays["scales/y_mean"]), float(arrays["scales/y_sd"]))
    layout = Layout(sites=sites, model=model, scales=scales, u=arrays["u"], pooled_u=arrays["pooled_u"],
                    indicators=arrays["indicators"], moments={name: _site_moments(arrays, name) for name in sites})
    fit = Fit(arrays["theta"], facts["verdict"], facts["objective"], _read_trace(trace), facts["jitters"])
    sums = {name: own for name in sites if (own := _below(arrays, f"sums/{name}/"))}
    effects = Effects(_below(arrays, "draws/"), sums, _below(arrays, "total/") or None)
    return Outcome(run=facts["run"], seed=facts["seed"], options=options, layout=layout, fit=fit, effects=effects,
                   warnings=tuple(facts["warnings"]), seconds=facts["seconds"], excluded=facts.get("excluded", {}),
                   diagnostics=_diagnostics(arrays))


def _diagnostics(arrays: dict[str, np.ndarray]) -> Diagnostics | None:
    """All of them, sealed ones too; ValueError where they are damaged."""
    written = arrays.get("diagnostics")
    return None if written is None else Diagnostics.model_validate_json(written.tobytes())


def _below(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _site_moments(arrays: dict[str, np.ndarray], site: str) -> SiteMoments:
    a = _below(arrays, f"moments/{site}/")
    x, y0, y1, w = (Moments(a[name], a[f"{name}_count"]) for name in ("x", "y0", "y1", "w"))
    return SiteMoments(x, a["suppressed"], a["incomplete"], (y0, y1), w)


def _read_trace(path: Path) -> tuple[Round, ...]:
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(Round(number=int(row["number"]), cap=int(row["cap"]), objective=float(row["objective"]),
                           gradient_norm=float(row["gradient_norm"]), seconds=float(row["seconds"]),
                           few=row.get("few") == "True") for row in csv.DictReader(file))


def _read_people(study: Study, outcome: Outcome, index: int, folder: Path) -> People:
    """Of the site with number `index`, from its own folder."""
    with np.load(folder / "rows.npz", allow_pickle=False) as file:
        x, w, y, jitter = file["x"], file["w"], file["y"], float(file["jitter"])
        rows = file["kept"] if "kept" in file else np.arange(len(y))  # absent where there was no linkage
    names, kinds = design_columns(study)
    table = Table(site=outcome.layout.sites[index], x=x, missing=np.isnan(x), w=w, y=y, columns=names, kinds=kinds,
                  ids=None, warnings=())
    return fitted_people(outcome, table, rows, jitter)


def fitted_people(outcome: Outcome, table: Table, rows: np.ndarray, jitter: float) -> People:
    """The people of a site from its table, ready for predictions: nothing is fitted again."""
    layout = outcome.layout
    index, units = layout.sites.index(table.site), Units(*layout.scales, layout.indicators)
    arranged = layout.model.rows(units.covariates(table.x), table.w, units.outcome(table.y), layout.u[index], index)
    q = Posterior(outcome.fit.theta, layout.model.draws_at(outcome.effects.draws, index), jitter)
    return People(table, rows, Prepared(layout.model, units, arranged), q)
