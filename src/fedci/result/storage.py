"""A result on disk: JSON, NPZ and CSV; no pickle. What a coordinator may keep, and each site's private part apart.

    result.json   study, options, verdict, versions, seed, site names          arrays.npz   Θ, draws, per-draw sums
    effects.csv   ATE, ATT, ATC, all and per site                              trace.csv    one line per round
    risks.csv     of an outcome of 0 and 1, both risks and what is made of them (`Result.risk_table`)
    rates.csv     of a count (`Result.rate_table`)
    arms.csv      of more than two arms what is expected in each (`Result.arm_table`)
    subgroups.csv, contrasts.csv   where the study names subgroups
    survival.csv  of a time to an event, both curves and their differences (`Result.survival_table`)
    diagnostics.json   all diagnostics, readable without JAX (`diagnostics.findings`)
    sites/NAME/   rows.npz (the site's rows) and people.csv (its people's effects): mode 0600, the site's own

A blinded study's folder has no effects.csv, risks.csv or people.csv, and diagnostics.json without what tells the
effect, until it is opened. The seal is one of procedure: arrays.npz holds the sums all the while.

A result is replaced whole or not at all, and the digests in result.json are held against its files when it is loaded
(`replacement`).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fedci.bounded import json_file, npz_file, text_file
from fedci.coordinator.coordinator import AtSite, Effects, Fit, Layout, Outcome, Round
from fedci.diagnostics.findings import Diagnostics
from fedci.errors import OutputError
from fedci.files import check_folder, private_file
from fedci.model.families import model_of
from fedci.plain import plain
from fedci.protocol.engine import Traffic
from fedci.result.replacement import HEAD, place, reading, replaced, sealed, verify
from fedci.result.result import Result
from fedci.site import copies
from fedci.site.people import People, Posterior
from fedci.site.prepared import Prepared, common_units
from fedci.study.options import FitOptions, validated
from fedci.study.study import Study
from fedci.table.design import design_columns
from fedci.table.moments import Moments, Scales, pool
from fedci.table.table import Table
from fedci.version import __version__

FORMAT = 1


def save_result(result: Result, folder: Path | str, force: bool = False) -> None:
    path = check_folder(folder, force)
    try:
        with replaced(path) as new:
            _write_all(result, new)
    except OSError as problem:
        raise OutputError(f"the result could not be written to '{path}': {problem.strerror}") from None


def _write_all(result: Result, folder: Path) -> None:
    np.savez(folder / "arrays.npz", allow_pickle=False, **_arrays(result.outcome))
    if not result.blinded:
        result.table().to_csv(folder / "effects.csv", index=False)
        if result.many:
            result.arm_table().to_csv(folder / "arms.csv", index=False)
        if result.of_risks:
            result.risk_table().to_csv(folder / "risks.csv", index=False)
        if result.of_rates:
            result.rate_table().to_csv(folder / "rates.csv", index=False)
        if result.of_times:
            result.survival_table().to_csv(folder / "survival.csv", index=False)
        if result.outcome.effects.subgroups:
            result.subgroups().to_csv(folder / "subgroups.csv", index=False)
            result.contrasts().to_csv(folder / "contrasts.csv", index=False)
    if result.diagnostics is not None:
        result.diagnostics.write(folder / "diagnostics.json")
    _write_trace(result.outcome.fit.rounds, folder / "trace.csv")
    for name in result.people:
        _write_people(result, name, folder / "sites" / name)
    (folder / HEAD).write_text(json.dumps(sealed(_facts(result), folder), indent=2) + "\n", encoding="utf-8")


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
              "withheld": layout.withheld, "timing": layout.timing, "lacking": layout.lacking, "laws": layout.laws,
              "columns": layout.columns.values, "columns_count": layout.columns.count,
              "people": np.array([layout.people[site].counts for site in layout.sites]),
              **{f"draws/{name}": value for name, value in drawn.draws.items()},
              **{f"scales/{name}": np.asarray(value) for name, value in layout.scales._asdict().items()}}
    arrays |= {f"total/{name}": value for name, value in (drawn.total or {}).items()}
    arrays |= {f"subgroups/{name}": value for name, value in drawn.subgroups.items()}
    arrays |= {f"decisions/{name}": value for name, value in drawn.decisions.items()}
    if o.diagnostics is not None:
        arrays["diagnostics"] = np.frombuffer(o.diagnostics.to_json().encode(), np.uint8)
    for site in layout.sites:
        arrays |= {f"sums/{site}/{name}": value for name, value in drawn.sums.get(site, {}).items()}
    return arrays


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
                 jitter=np.asarray(people.q.jitter), added=np.asarray(people.table.added),
                 **{name: part for name, part in (("cluster", people.table.cluster), ("time", people.table.time))
                    if part is not None})
    if result.blinded:
        return
    with private_file(folder / "people.csv", "w") as file:
        result.ite(site).to_csv(file, index_label="row")


def load_result(folder: Path | str) -> Result:
    path = Path(folder)
    try:
        with reading(path):
            facts = json_file(place(path, HEAD))
            _check_format(path, facts)
            verify(path, facts)
            return _result(path, facts, npz_file(place(path, "arrays.npz")))
    except FileNotFoundError:
        raise OutputError(f"'{path}' holds no result: it needs result.json and arrays.npz. Give the folder that "
                          f"`fedci run … --out` or a coordinator wrote") from None
    except NotADirectoryError:
        raise OutputError(f"'{path}' is a file, and a result is a folder: give the one that `fedci run … --out` or a "
                          f"coordinator wrote") from None
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, OSError, csv.Error):
        raise OutputError(f"the result in '{path}' is damaged or of another version of fedci") from None


def _check_format(path: Path, facts: dict[str, Any]) -> None:
    """Of another format, or of a law that θ no longer follows: without landmarks the arms had another one."""
    model, format_ = facts["options"]["model"], facts["format"]
    if format_ != FORMAT:
        raise _of_another_version(path, facts, f"in format {format_}", f"reads format {FORMAT}")
    if model["family"] == "shared" and "landmarks" not in model:
        raise _of_another_version(path, facts, "with the earlier law of the model 'shared'", "has another")


def _of_another_version(path: Path, facts: dict[str, Any], written: str, here: str) -> OutputError:
    writer = facts.get("versions", {}).get("fedci", "unknown")
    return OutputError(f"the result in '{path}' was written by fedci {writer} {written}; this is fedci {__version__}, "
                       f"which {here}. Read it with the version that wrote it")


def _result(path: Path, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> Result:
    study = Study.from_toml(facts["study"])
    outcome = _outcome(study, facts, arrays, place(path, "trace.csv"))
    rows = {name: place(path, f"sites/{name}/rows.npz") for name in facts["sites"]}
    bound = facts.get("files")  # none of before digests
    people = {name: _read_people(study, outcome, index, rows[name]) for index, name in enumerate(facts["sites"])
              if rows[name].exists() and (bound is None or f"sites/{name}/rows.npz" in bound)}
    traffic = {name: Traffic(**seen) for name, seen in facts["traffic"].items()}
    return Result(study=study, outcome=outcome, people=people, traffic=traffic, versions=facts["versions"],
                  made=facts["made"], opened=facts.get("opened"))


def _outcome(study: Study, facts: dict[str, Any], arrays: dict[str, np.ndarray], trace: Path) -> Outcome:
    options = validated(FitOptions, facts["options"], where="options of the result")
    sites, described = tuple(facts["sites"]), len(design_columns(study)[0])
    timing = arrays.get("timing", np.zeros(0))  # absent where there were numbers only
    marked = 0 if study.completes else len(arrays["indicators"])
    model = model_of(options.model, described + marked, described, len(sites),
                     study.outcome_type, len(timing) if study.outcome_type == "survival" else 0, study.arm_count)
    scales = Scales(arrays["scales/x_mean"], arrays["scales/x_sd"],
                    float(arrays["scales/y_mean"]), float(arrays["scales/y_sd"]))
    layout = Layout(sites=sites, model=model, scales=scales, u=arrays["u"], pooled_u=arrays["pooled_u"],
                    indicators=arrays["indicators"], timing=timing, lacking=arrays.get("lacking", np.zeros(0, int)),
                    laws=arrays.get("laws", np.zeros((0, 0))), **_opened(arrays, sites, described))
    fit = Fit(theta=arrays["theta"], verdict=facts["verdict"], objective=facts["objective"],
              rounds=_read_trace(trace), jitters=facts["jitters"])
    sums = {name: own for name in sites if (own := _below(arrays, f"sums/{name}/"))}
    effects = Effects(draws=_below(arrays, "draws/"), sums=sums, total=_below(arrays, "total/") or None,
                      subgroups=_below(arrays, "subgroups/"), decisions=_below(arrays, "decisions/"))
    return Outcome(run=facts["run"], seed=facts["seed"], options=options, layout=layout, fit=fit, effects=effects,
                   warnings=tuple(map(plain, facts["warnings"])), seconds=facts["seconds"],
                   excluded=facts.get("excluded", {}), diagnostics=_diagnostics(arrays))


def _diagnostics(arrays: dict[str, np.ndarray]) -> Diagnostics | None:
    """All of them, sealed ones too; ValueError where they are damaged."""
    written = arrays.get("diagnostics")
    return None if written is None else Diagnostics.model_validate_json(written.tobytes())


def _below(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _opened(arrays: dict[str, np.ndarray], sites: tuple[str, ...], described: int) -> dict[str, Any]:
    """What the opening told: how many people, and the pooled columns. Version 0.1.0 kept each site's moments."""
    if "people" in arrays:
        people = {site: AtSite.of(counts) for site, counts in zip(sites, arrays["people"], strict=True)}
        return {"people": people, "withheld": arrays["withheld"],
                "columns": Moments(arrays["columns"], arrays["columns_count"])}
    own = {site: _below(arrays, f"moments/{site}/") for site in sites}
    return {"people": {site: AtSite(int(a["w_count"][0]), int(a["y1_count"][0])) for site, a in own.items()},
            "withheld": np.zeros(described, bool),
            "columns": pool([Moments(a["x"], a["x_count"]) for a in own.values()])}


def _read_trace(path: Path) -> tuple[Round, ...]:
    return tuple(Round(number=int(row["number"]), cap=int(row["cap"]), objective=float(row["objective"]),
                       gradient_norm=float(row["gradient_norm"]), seconds=float(row["seconds"]),
                       few=row.get("few") == "True") for row in csv.DictReader(text_file(path).splitlines()))


def _read_people(study: Study, outcome: Outcome, index: int, path: Path) -> People:
    """Of the site with number `index`, from its own file."""
    saved = npz_file(path)
    x, w, y, jitter = saved["x"], saved["w"], saved["y"], float(saved["jitter"])
    rows = saved["kept"] if "kept" in saved else np.arange(len(y))  # absent where there was no linkage
    names, kinds = design_columns(study)
    table = Table(site=outcome.layout.sites[index], x=x, missing=np.isnan(x), w=w, y=y, columns=names, kinds=kinds,
                  ids=None, warnings=(), added=float(saved.get("added", 0.0)),  # absent in results of 0.1.0
                  cluster=saved.get("cluster"), time=saved.get("time"), arms=study.arm_count)
    return fitted_people(study, outcome, table, rows, jitter)


def fitted_people(study: Study, outcome: Outcome, table: Table, rows: np.ndarray, jitter: float) -> People:
    """The people of a site from its table, ready for predictions: nothing is fitted again."""
    layout = outcome.layout
    index = layout.sites.index(table.site)
    units = common_units(study, layout, len(layout.sites), outcome.seed)
    arranged = layout.model.rows(units.filled(table.x), table.w, units.outcome(table.y), layout.u[index], index,
                                 table.added / units.y_sd**2, table.cluster,
                                 units.time(table.time, layout.model.outcome, table.rows))
    q = Posterior(outcome.fit.theta, layout.model.draws_at(outcome.effects.draws, index), jitter)
    ready = copies.rows_of(Prepared(model=layout.model, units=units, rows=arranged), units, table, index,
                           study.policy.min_cell)
    return People(table, rows, ready, q)
