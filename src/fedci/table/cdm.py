"""The one SELECT that makes a study's table from an OMOP CDM: for PostgreSQL, DuckDB, SQLite and, as text, SQL Server.

    people   first entry of each into target (1) or comparator (0); whoever is in both is left out
    columns  person_id, treatment, outcome, and each feature by a subquery over its table, concepts and window

Numbers and names come from a validated study (`study.omop`); nothing of it is pasted as text but by SQLAlchemy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fedci.study.omop import Feature, Omop

if TYPE_CHECKING:
    import sqlalchemy as sa

TABLES = {"condition": ("condition_occurrence", "condition_concept_id", "condition_start_date"),
          "drug": ("drug_exposure", "drug_concept_id", "drug_exposure_start_date"),
          "procedure": ("procedure_occurrence", "procedure_concept_id", "procedure_date"),
          "measurement": ("measurement", "measurement_concept_id", "measurement_date"),
          "observation": ("observation", "observation_concept_id", "observation_date"),
          "visit": ("visit_occurrence", "visit_concept_id", "visit_start_date")}
"""Feature's table → (table of the CDM, its concepts, its date)."""
PERSON = "person_id"
YEAR_BEFORE = (-365, 0)
COHORT = ("cohort_definition_id", "subject_id", "cohort_start_date")


class Attrition(NamedTuple):
    """How many people stand in each cohort, and how many are left."""

    target: int
    comparator: int
    both: int

    def in_words(self) -> str:
        empty = ("" if self.target and self.comparator else
                 "; a cohort that holds nobody: is its id right, and the table cohort filled?")
        return (f"{self.target} people in the target cohort, {self.comparator} in the comparator, {self.both} in both, "
                f"who are left out{empty}")


def select_of(omop: Omop, treatment: str, outcome: str, kind: str) -> str:
    """The statement in the dialect of a database ('postgresql', 'duckdb', 'sqlite', 'mssql'), its columns by the
    study's names."""
    import sqlalchemy as sa

    people, who = _people(omop)
    columns = [people.c.person_id.label(PERSON), people.c.treated.label(treatment),
               _outcome(omop, people, kind).label(outcome)]
    columns += [_feature(omop, one, people, who, kind).label(name) for name, one in omop.features.items()]
    stated = sa.select(*columns).select_from(people.join(who, who.c.person_id == people.c.person_id))
    return _text(stated.order_by(people.c.person_id), kind)


def attrition_of(omop: Omop, kind: str) -> str:
    """Counts of people: in the target, in the comparator, in both."""
    import sqlalchemy as sa

    target, comparator = (_entries(omop, number) for number in (omop.target, omop.comparator))
    both = sa.select(sa.func.count()).select_from(
        target.join(comparator, target.c.person_id == comparator.c.person_id)).scalar_subquery()
    counts = [sa.select(sa.func.count()).select_from(part).scalar_subquery() for part in (target, comparator)]
    return _text(sa.select(counts[0].label("target"), counts[1].label("comparator"), both.label("both_cohorts")), kind)


def common_of(omop: Omop, table: str, kind: str, most: int) -> str:
    """The concepts that most people of the two cohorts have on record in the year before: (concept, name, people)."""
    import sqlalchemy as sa

    people, _ = _people(omop)
    name, concept, when = TABLES[table]
    seen, named = (_table(omop.cdm, name, PERSON, concept, when).alias(),
                   _table(omop.cdm, "concept", "concept_id", "concept_name").alias())
    count = sa.func.count(sa.distinct(seen.c.person_id))
    joined = people.join(seen, seen.c.person_id == people.c.person_id).join(
        named, named.c.concept_id == seen.c[concept])
    days = _days(seen.c[when], people.c.start, kind)
    stated = (sa.select(seen.c[concept].label("concept"), sa.func.min(named.c.concept_name).label("name"),
                        count.label("people")).select_from(joined)
              .where(days.between(*YEAR_BEFORE), seen.c[concept] != 0)
              .group_by(seen.c[concept]).order_by(count.desc(), seen.c[concept]).limit(most))
    return _text(stated, kind)


def _text(statement: sa.Select[Any], kind: str) -> str:
    from sqlalchemy.dialects import mssql, postgresql, sqlite

    dialects: dict[str, Any] = {"postgresql": postgresql, "duckdb": postgresql, "sqlite": sqlite, "mssql": mssql}
    return str(statement.compile(dialect=dialects[kind].dialect(), compile_kwargs={"literal_binds": True}))


def _table(schema: str | None, name: str, *columns: str) -> sa.TableClause:
    import sqlalchemy as sa

    return sa.table(name, *(sa.column(column) for column in columns), schema=schema)


def _entries(omop: Omop, cohort: int) -> sa.Subquery:
    """(person_id, start): the first entry of each person."""
    import sqlalchemy as sa

    table = _table(omop.results or omop.cdm, "cohort", *COHORT).alias()
    return (sa.select(table.c.subject_id.label(PERSON), sa.func.min(table.c.cohort_start_date).label("start"))
            .where(table.c.cohort_definition_id == cohort).group_by(table.c.subject_id)).subquery()


def _people(omop: Omop) -> tuple[sa.CTE, sa.FromClause]:
    """(person_id, start, treated) of whoever is in one of the two cohorts, and the table of persons."""
    import sqlalchemy as sa

    arms = []
    for arm, (own, other) in ((1, (omop.target, omop.comparator)), (0, (omop.comparator, omop.target))):
        mine, theirs = _entries(omop, own), _entries(omop, other)
        alone = ~sa.exists().where(theirs.c.person_id == mine.c.person_id)
        arms.append(sa.select(mine.c.person_id, mine.c.start, sa.literal(arm).label("treated")).where(alone))
    who = _table(omop.cdm, "person", PERSON, "year_of_birth", "gender_concept_id", "race_concept_id",
                 "ethnicity_concept_id").alias("who")
    return sa.union_all(*arms).cte("people"), who


def _outcome(omop: Omop, people: sa.CTE, kind: str) -> sa.ColumnElement[Any]:
    import sqlalchemy as sa

    if isinstance(omop.outcome, Feature):
        return _of_records(omop, omop.outcome, people, kind)
    table = _table(omop.results or omop.cdm, "cohort", *COHORT).alias()
    day = _days(table.c.cohort_start_date, people.c.start, kind)
    seen = sa.exists().where(table.c.cohort_definition_id == omop.outcome, table.c.subject_id == people.c.person_id,
                             day.between(*omop.window))
    return sa.case((seen, 1), else_=0)


def _feature(omop: Omop, one: Feature, people: sa.CTE, who: sa.FromClause, kind: str) -> sa.ColumnElement[Any]:
    import sqlalchemy as sa

    if one.take == "age":
        return sa.extract("year", people.c.start) - who.c.year_of_birth
    if one.table == "person":
        return sa.case((who.c[f"{one.take}_concept_id"].in_(one.concepts), 1), else_=0)
    return _of_records(omop, one, people, kind)


def _of_records(omop: Omop, one: Feature, people: sa.CTE, kind: str) -> sa.ColumnElement[Any]:
    """Over the records of a person with these concepts in the window."""
    import sqlalchemy as sa

    name, concept, when = TABLES[one.table]
    table = _table(omop.cdm, name, PERSON, concept, when, "value_as_number", f"{one.table}_id").alias()
    wanted = table.c[concept].in_(one.concepts)
    if one.descendants:
        below = _table(omop.cdm, "concept_ancestor", "ancestor_concept_id", "descendant_concept_id").alias()
        wanted = table.c[concept].in_(sa.select(below.c.descendant_concept_id).where(
            below.c.ancestor_concept_id.in_(one.concepts)))
    meant = (table.c.person_id == people.c.person_id, wanted, _days(table.c[when], people.c.start, kind).between(
        *one.window))
    if one.take == "any":
        return sa.case((sa.exists().where(*meant), 1), else_=0)
    if one.take == "count":
        return sa.select(sa.func.count()).select_from(table).where(*meant).scalar_subquery()
    value, known = table.c.value_as_number, table.c.value_as_number.is_not(None)
    if one.take == "last":
        return (sa.select(value).where(*meant, known).order_by(table.c[when].desc(), table.c[f"{one.table}_id"].desc())
                .limit(1).scalar_subquery())
    over = getattr(sa.func, {"mean": "avg", "minimum": "min", "maximum": "max"}[one.take])
    return sa.select(over(value)).where(*meant).scalar_subquery()


def _days(later: sa.ColumnElement[Any], earlier: sa.ColumnElement[Any], kind: str) -> sa.ColumnElement[Any]:
    """Days from `earlier` to `later`, as each database counts them."""
    import sqlalchemy as sa

    if kind == "sqlite":
        return sa.cast(sa.func.julianday(later) - sa.func.julianday(earlier), sa.Integer)
    if kind == "mssql":
        return sa.func.datediff(sa.text("day"), earlier, later)
    return later - earlier
