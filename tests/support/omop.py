"""A simulated hospital as a table, and as the tables of an OMOP common data model; and a study that reads both."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedci.study.study import Study

TARGET, COMPARATOR, OUTCOME, DIABETES, BELOW, STATIN, PRESSURE = 101, 102, 103, 201826, 443238, 1545958, 3004249
SPEC = {"target": TARGET, "comparator": COMPARATOR, "outcome": OUTCOME, "window": [1, 90], "features": {
    "age": {"table": "person", "take": "age"},
    "female": {"table": "person", "take": "gender", "concepts": [8532]},
    "diabetes": {"table": "condition", "concepts": [DIABETES], "descendants": True},
    "statins": {"table": "drug", "concepts": [STATIN], "take": "count", "window": [-100, -1]},
    "pressure": {"table": "measurement", "concepts": [PRESSURE], "take": "last", "window": [-30, 0]},
    "highest": {"table": "measurement", "concepts": [PRESSURE], "take": "maximum", "window": [-30, 0]}}}
STUDY = Study(treatment="treated", outcome={"name": "event", "type": "binary"}, policy="simulation", missing="impute",
              covariates={"age": {}, "female": "binary", "diabetes": "binary", "statins": {}, "pressure": {},
                          "highest": {}}, source={"omop": SPEC})


def people(seed: int, rows: int = 120) -> pd.DataFrame:
    """A simulated hospital's table: what the model must give back."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({
        "person_id": np.arange(1, rows + 1), "treated": rng.integers(0, 2, rows), "event": rng.integers(0, 2, rows),
        "age": rng.integers(30, 90, rows), "female": rng.integers(0, 2, rows), "diabetes": rng.integers(0, 2, rows),
        "statins": rng.integers(0, 4, rows), "pressure": np.round(rng.normal(140, 15, rows), 1)})
    table["highest"] = table.pressure + rng.integers(0, 9, rows)
    table.loc[:9, ["pressure", "highest"]] = np.nan
    return table


def cdm(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables of a common data model from which it comes, with records that must not count."""
    start = pd.to_datetime("2020-03-01") + pd.to_timedelta(table.person_id % 200, unit="D")

    def day(after) -> pd.Series:
        return (start + pd.to_timedelta(after, unit="D")).dt.strftime("%Y-%m-%d")

    who = table.person_id
    entries = pd.DataFrame({"cohort_definition_id": np.where(table.treated, TARGET, COMPARATOR), "subject_id": who,
                            "cohort_start_date": day(0)})
    again = entries.assign(cohort_start_date=day(50))  # a later entry of the same person
    events = pd.DataFrame({"cohort_definition_id": OUTCOME, "subject_id": who,
                           "cohort_start_date": np.where(table.event, day(90), day(91))})
    both = pd.DataFrame({"cohort_definition_id": [TARGET, COMPARATOR], "subject_id": 9999,
                         "cohort_start_date": "2020-01-01"})
    known = table.pressure.notna()
    never = table.pressure * 0 + 999
    measured = pd.concat([pd.DataFrame({"person_id": who, "value_as_number": values, "measurement_date": when})[known]
                          for values, when in ((table.highest, day(-20)), (table.pressure, day(-1)), (never, day(-31)),
                                               (never, day(1)))])
    drugs = who.repeat(table.statins)
    return {
        "person": pd.DataFrame({"person_id": [*who, 9999], "year_of_birth": [*(start.dt.year - table.age), 1950],
                                "gender_concept_id": [*np.where(table.female, 8532, 8507), 8507],
                                "race_concept_id": 0, "ethnicity_concept_id": 0}),
        "cohort": pd.concat([entries, again, events, both]),
        "condition_occurrence": pd.DataFrame({
            "person_id": who, "condition_concept_id": np.where(table.diabetes, BELOW, 77),
            "condition_start_date": day(0)}),
        "concept": pd.DataFrame({"concept_id": [BELOW, 77, STATIN, PRESSURE],
                                 "concept_name": ["Diabetes", "Cough", "Atorvastatin", "Systolic pressure"]}),
        "concept_ancestor": pd.DataFrame({"ancestor_concept_id": [DIABETES, DIABETES],
                                          "descendant_concept_id": [DIABETES, BELOW]}),
        "drug_exposure": pd.DataFrame({"person_id": [*drugs, *who], "drug_concept_id": STATIN,
                                       "drug_exposure_start_date": [*day(-50).loc[drugs.index], *day(0)]}),
        "measurement": measured.assign(measurement_concept_id=PRESSURE, measurement_id=np.arange(len(measured)))}
