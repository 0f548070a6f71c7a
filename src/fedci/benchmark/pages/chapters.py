"""The pages behind the front page: how it was measured, each data set, and each topic over all data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from fedci.benchmark.pages import ablation, coverage, figures, intervals, measurement, provenance, published, tables
from fedci.benchmark.pages.archive import ABLATION, COVERAGE, Archive
from fedci.benchmark.pages.chapter import COMMANDS, Chapter, slug
from fedci.benchmark.pages.markdown import title
from fedci.benchmark.pages.summary import OURS, Summaries, dataset_order, datasets, null_datasets, select

HEADLINE = """\
√PEHE under P2, mean ± standard error over replications. FedCI ÷ baseline and the difference, the baseline's − FedCI's,
are over the replications both have: below 1 and above 0 where FedCI, which never sees a row, is better. Best is the
baseline with the greatest such ratio; the last column but one says over how many of FedCI's replications.
"""
SHORTFALLS = """\
Federated FedCI against every baseline on combined rows (com) under P2, √PEHE and ATE error, each number of sources,
over common replications.
"""
REALISED = "Of realised effects y(1) − y(0), which carry the noise of the outcomes.\n"


def all_chapters(results: Archive, own: Mapping[str, Archive], drawn: Sequence[str]) -> list[Chapter]:
    """Those with something to show. `own`: the folders within the results, by name; `drawn`: names of figures."""
    repeated, ablated = (own[name].summaries if name in own else {} for name in (COVERAGE, ABLATION))
    described = {dataset for part in (results.summaries, repeated, ablated) for dataset in datasets(part)}
    chapters = [measurement_chapter(sorted(described, key=dataset_order)),
                *table_chapters(results.summaries, repeated, drawn), ablation_chapter(ablated),
                command_chapter(results, own)]
    return [chapter for chapter in chapters if chapter]


def table_chapters(summaries: Summaries, repeated: Summaries, drawn: Sequence[str]) -> list[Chapter]:
    """The comparisons, each data set, then the topics."""
    by_dataset = [dataset_chapter(summaries, dataset) for dataset in datasets(summaries)]
    chapters = [comparison_chapter(summaries), *by_dataset, interval_chapter(summaries, repeated),
                paper_chapter(summaries, drawn)]
    return [chapter for chapter in chapters if chapter]


# --- each of them

def measurement_chapter(described: Sequence[str]) -> Chapter:
    return Chapter("measurement", "How it was measured", "errors, protocols, modes, data sets, settings",
                   measurement.ERRORS_IN_WORDS,
                   {"Protocols": measurement.PROTOCOLS_IN_WORDS, "Modes": measurement.MODES_IN_WORDS,
                    "Data sets": measurement.dataset_list(described), "Settings": measurement.SETTINGS_IN_WORDS})


def comparison_chapter(summaries: Summaries) -> Chapter:
    return Chapter("comparisons", "Every comparison",
                   "each number of sources beside the best baseline, every baseline that FedCI does not beat, failures",
                   "", {"Each number of sources": _below(HEADLINE, tables.headline(summaries)),
                        "Where FedCI does not win": _below(SHORTFALLS, _shortfalls(summaries)),
                        "Failures": tables.failure_table(summaries)})


def dataset_chapter(summaries: Summaries, dataset: str) -> Chapter:
    """Expected effects first, which are the headline."""
    return Chapter(
        slug(dataset), title(dataset), measurement.description(dataset), _sentence(measurement.description(dataset)),
        {"Expected effects, protocol P2": tables.protocol_table(summaries, dataset, "P2"),
         "Beside what was printed": tables.other_paper_table(summaries, dataset),
         "Differences to FedCI under P2": tables.paired_table(summaries, dataset),
         "Intervals under P2": intervals.interval_table(summaries, dataset),
         "Cost": intervals.cost_table(summaries, dataset),
         "Imputation, protocol P1": tables.protocol_table(summaries, dataset, "P1"),
         "Blind, protocol P3": tables.protocol_table(summaries, dataset, "P3"),
         "Intervals of FedCI under P1 and P3": _below(
             REALISED, intervals.realised_interval_table(summaries, dataset))})


def interval_chapter(summaries: Summaries, repeated: Summaries) -> Chapter:
    return Chapter("intervals", "Intervals and false alarms",
                   "coverage over many replications; how often an effect is found where there is none", "",
                   {"Coverage over many replications": coverage.coverage_table(repeated),
                    "False alarms": _each(null_datasets(summaries), lambda d: intervals.null_table(summaries, d))})


def ablation_chapter(ablated: Summaries) -> Chapter:
    return Chapter("ablation", "What each ingredient brings", "FedCI beside itself with one ingredient changed", "",
                   {"Errors": ablation.ingredient_table(ablated),
                    "Coverage": ablation.ingredient_coverage_table(ablated)})


def paper_chapter(summaries: Summaries, drawn: Sequence[str]) -> Chapter:
    return Chapter("paper", "The paper's tables and figures", "its printed figures beside ours", "",
                   {"Tables": _each(published.datasets(), lambda d: tables.paper_table(summaries, d)),
                    "Figures": _figures(drawn)})


def command_chapter(results: Archive, own: Mapping[str, Archive]) -> Chapter:
    """Every run behind the pages, folder by folder."""
    names = {COVERAGE: "Coverage over many replications", ABLATION: "What each ingredient brings"}
    return Chapter(COMMANDS, "Commands and versions", "every run behind these pages",
                   "Rows that are already in a folder are not run again: a later command adds what is missing.\n",
                   {"The grid": provenance.run_list(results.runs),
                    **{names[name]: provenance.run_list(archive.runs) for name, archive in own.items()}})


# --- their parts

def _below(above: str, text: str) -> str:
    return f"{above}\n{text}" if text else ""


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}.\n"


def _each(names: Iterable[str], make: Callable[[str], str]) -> str:
    """A table for each data set that has one, under its title."""
    texts = [(dataset, make(dataset)) for dataset in names]
    return "\n".join(f"**{title(dataset)}**\n\n{text}" for dataset, text in texts if text)


def _shortfalls(summaries: Summaries) -> str:
    """One item for each data set on which federated FedCI has figures."""
    return "".join(tables.shortfalls(summaries, dataset) for dataset in datasets(summaries)
                   if select(summaries, dataset=dataset, protocol="P2", method=OURS))


def _figures(drawn: Sequence[str]) -> str:
    captions = {name: figures.FIGURES[name] for name in drawn if name in figures.FIGURES}
    return "\n".join(f"![{text}](../figures/{name}.svg)\n\n*{text}.*\n" for name, text in captions.items())
