"""`make assurance`: attacks, faults, fuzzers, protections taken out and the soak; their table in docs/assurance.md.

    python assurance/run.py [--seconds 30] [--soak 1000] [--only WORD] [--missing] [--jobs 2] [--quick] [--out FILE]

A row: what was tried, how often, how often it was survived, and how often something was lost (must be 0). The page has
the tree that its rows are of (what git has of its code): a run of some rows leaves those of the same
tree as they are, and marks others; `--missing` runs what the page has not of this tree. The page is written after
each row: a run that is cut leaves whole ones, and `--missing` goes on from there.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SUITES = {
    "attacks: reconstruction from moments": ["tests/across/attacks/test_moment_reconstruction.py"],
    "attacks: rows from Gram matrices (the attack is right and strong, its bound and its score)":
        ["tests/across/attacks/test_gram_attack.py", "tests/across/attacks/test_people_told.py"],
    "attacks: requests that nobody foresaw, small cells, other cohorts, seeds and runs":
        ["tests/across/attacks/test_foreseen.py", "tests/table/test_small_cells.py", "tests/table/test_strays.py"],
    "attacks: subgroups, rules and gaps that tell of few":
        ["tests/site/test_grouping.py", "tests/site/test_targeting.py", "tests/across/test_subgroups.py",
         "tests/across/attacks/test_gaps.py"],
    "attacks: noise on sums (new kits, other cohorts, copies of a column, false squares); renamed columns":
        ["tests/model/shared/test_sum_noise.py", "tests/model/shared/test_noised_family.py",
         "tests/study/test_origin.py", "tests/across/attacks/test_noised_sums.py"],
    "attacks: single uploads, t − 1 shares, late uploads, wrong shares": ["tests/privacy/test_secure_sum.py"],
    "attacks: subgroups that differ by few, in one study and over forty, told and solved for":
        ["tests/across/attacks/test_subgroup_differencing.py", "tests/site/test_grouping.py"],
    "attacks: differencing, too many parameters, rounds or numbers; noise on outcomes":
        ["tests/site/test_accountant.py", "tests/privacy/test_leverage.py", "tests/site/test_limits.py",
         "tests/site/test_outcome_noise.py"],
    "faults: flipped, cut, lost, late and crossed messages; full and read-only disks": ["tests/across/test_faults.py"],
    "faults: changed, cut and torn ledgers": ["tests/site/test_ledger.py", "tests/cli/test_ledger_view.py"],
    "faults: changed, cut, torn and lost stores of what was told":
        ["tests/site/test_store.py", "tests/cli/test_stores.py"],
    "fuzzing: corpus under a memory limit, properties": ["tests/across/test_fuzz.py"],
    "faults: damaged messages of every type": ["tests/protocol/test_codec.py"],
    "attacks: a coordinator that lies (crafted weights, another Θ for one site, a sum that is none)":
        ["tests/across/attacks/test_lying_coordinator.py"],
    "attacks: keys in the middle, partial sums, garbage under masks":
        ["tests/coordinator/test_masked_sums.py", "tests/site/test_masking.py", "tests/coordinator/test_checkpoint.py",
         "tests/site/test_noising.py", "tests/result/test_account.py"],
    "attacks: single sites' diagnostics under masks": ["tests/coordinator/test_masked_diagnoses.py"],
    "attacks: replays, changed and foreign requests, second releases": ["tests/site/test_door.py"],
    "attacks: brute force of linkage tokens": ["tests/across/attacks/test_linkage_attack.py"],
    "bad inputs: files, values, study files": ["tests/across/test_bad_inputs.py"],
    "attacks: strangers, expired and foreign certificates, jobs with code, changed kits":
        ["tests/network/test_refusals.py", "tests/network/test_kit.py", "tests/network/test_hardening.py",
         "tests/network/test_certificates.py", "tests/network/test_provision.py", "tests/network/test_operations.py"],
    "attacks: letters of a study by files, cut, flipped, swapped, stale, forged and foreign; commands killed":
        ["tests/mail"],
    "faults: mismatches, jitter, small disks; attacks: formulas, names, canaries": ["tests/across/test_promises.py"],
    "faults: parties killed at every protocol state": ["tests/network/test_faults.py"],
    "faults: SIGKILL of a site in 19 states, of the coordinator in 20 rounds": ["tests/network/test_killed.py"],
}
FUZZED = {"messages": "the message decoder", "study": "the study file", "csv": "the table reader"}
SOAK = "soak: rounds with 10 sites, 5 % of messages lost, a restart every 50"

PEOPLE = {
    "refused": "people: a listening coordinator, three sites under standard",
    "nothing": "people: a listening coordinator that knows nobody, 0.3 numbers a person allowed by every site",
    "column": "people: the same, which knows everything but one column",
    "everything":
        "people: the same, which fits all that was told, gradients and effects too, by least squares and by descent",
    "members": "people: the same, which has a person's whole row: was it in the study?",
    "control-column": "control: with the limit of numbers off the attack finds people",
    "control-everything": "control: with the limit of numbers off the fit of all that was told finds people",
    "colluding": "people: two colluding sites of four, everything but a column of the others known",
    "lying": "people: a coordinator that lies: answers that the honest course does not have",
    "one-more": "people: a second study with one patient more, new kits",
    "jobs": "people: 200 resubmitted jobs with other cohorts",
    "outcomes": "outcomes: covariates and arms known, limit of numbers off, several studies and their average",
    "outcomes-admitted": "outcomes: covariates and arms known, 0.3 numbers a person allowed by every site",
    "two-values": "outcomes: the same of two values, limit of numbers off",
    "control-outcomes": "control: without noise on outcomes the attack solves for them",
}
"""What assurance/people.py tries, by the names of its rows."""
NOISED = {
    "noised-bound": "noised sums (preset few under standard): one who knows all else, every number of every person",
    "noised-nothing": "noised sums: a listening coordinator that works with a site and knows nobody, three real sites",
    "noised-column": "noised sums: the same, which knows everything but one column",
    "noised-outcome": "noised sums: the same, which knows everything but the outcomes",
    "noised-person": "noised sums: the same, which knows everybody but one person",
    "noised-colluding": "noised sums: two colluding sites of four, which take their own sums and noise away",
    "control-noised-person": "control: without noise on sums the attack finds the one person's whole row",
    "control-noised-column": "control: without noise on sums, of few people the attack finds the column",
}
"""What assurance/noised_sums.py tries."""
STUDIES = {
    "noised-lying": "noised sums: a coordinator that lies: answers that the honest course does not have",
    "noised-more": "noised sums: a second study: one patient more, other columns, seed, options, a new kit",
    "noised-again": "noised sums: the same study again and again with new kits, and what was told averaged",
    "noised-jobs": "noised sums: 200 resubmitted jobs with other cohorts",
    "noised-members": "noised sums: one who has a person's whole row: was it in the study?",
    "control-noised-difference": "control: without noise and accountant one patient more is told exactly",
    "control-noised-again": "control: of sites that lose their stores what was told is averaged",
    "control-noised-jobs": "control: without noise and accountant jobs tell of one person each",
    "control-noised-members": "control: without noise, of few people, members are named",
}
"""What assurance/noised_studies.py tries."""
SCRIPTS = ({key: ("people", what) for key, what in PEOPLE.items()}
           | {key: ("noised_sums", what) for key, what in NOISED.items()}
           | {key: ("noised_studies", what) for key, what in STUDIES.items()})
"""Row → (what has it, what it tries)."""
GRAM = "attacks: people from Gram matrices of three masked sites of 60, policy standard (refused before a number)"
MUTATIONS = "protections: each taken out in a copy of the tree, and its test must fail"
"""What assurance/mutations.py tries."""
NOTES = ROOT / "assurance" / "gram.md", ROOT / "assurance" / "cost.md"
"""What stands below the table: how near anyone could come, and at what price."""

EARLIER = "; earlier run, of an older tree"
"""Marks a row that a run of some rows (--only) left as it was."""
TREE = "<!-- tree: "


class Row(NamedTuple):
    what: str
    tries: int
    survived: int
    note: str

    @property
    def lost(self) -> int:
        return self.tries - self.survived


def suite(what: str, paths: list[str]) -> Row:
    """A row from pytest's own counts."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run([sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *paths], cwd=ROOT, check=False)
        top = ElementTree.parse(report).getroot().find("testsuite")
    counts = {name: int(top.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    tries = counts["tests"] - counts["skipped"]
    note = f"{float(top.get('time')):.0f} s" + (f", {counts['skipped']} not run here" if counts["skipped"] else "")
    return Row(what, tries, tries - counts["failures"] - counts["errors"], note)


def fuzzed(kind: str, seconds: int) -> Row:
    done = subprocess.run([sys.executable, "assurance/fuzz.py", kind, str(seconds)], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    runs = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    memory = re.search(r"peak_rss_mb:\s*(\d+)", done.stderr)
    tries = int(runs[1]) if runs else 1
    note = f"{seconds} s, peak {memory[1]} MiB" if memory else ""
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
        note = "; ".join([*filter(None, [note]), ended_early(done.stderr)])
    return Row(f"fuzzing: {FUZZED[kind]}, coverage-guided", tries, tries - bool(done.returncode), note)


def ended_early(said: str) -> str:
    """Why, in the table: the last words of a program, without the signs that a table has."""
    words = [line.strip() for line in said.splitlines() if line.strip()]
    last = next((line for line in reversed(words) if "Error" in line or "ERROR" in line), words[-1] if words else "")
    return f"did not come to an end: {last.replace('|', '/')[:160] or 'it said nothing'}"


def soaked(rounds: int) -> Row:
    done = subprocess.run([sys.executable, "assurance/soak.py", "--rounds", str(rounds)], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    if done.returncode and not done.stdout:
        print(done.stderr[-3000:], file=sys.stderr)
        return Row(SOAK, 1, 0, ended_early(done.stderr))
    told = json.loads(done.stdout.splitlines()[-1])
    bits = "the same bits" if told["same bits"] else "OTHER BITS"
    note = (f"{told['lost']} of {told['messages']} messages lost, {told['restarts']} restarts, {told['pauses']} "
            f"pauses; {bits} as undisturbed; memory +{told['grown KiB']} KiB; {told['seconds']} s")
    return Row(SOAK, told["rounds"],
               told["rounds"] if done.returncode == 0 else 0, note)


def from_gram() -> Row:
    """People that the attack of assurance/gram.py recovers beyond chance; a refused study loses nobody."""
    done = subprocess.run([sys.executable, "assurance/gram.py", "count"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        print(done.stderr[-3000:], file=sys.stderr)
        return Row(GRAM, 1, 0, ended_early(done.stderr))
    told = json.loads(done.stdout.splitlines()[-1])
    return Row(GRAM, told["people"], told["people"] - told["recovered"], told["note"])


def of_people(key: str, quick: bool) -> Row:
    """People that an attack recovers: a row of its own."""
    script, what = SCRIPTS[key]
    return counted(what, f"assurance/{script}.py", key, *["--quick"] * quick)


def counted(what: str, *script: str) -> Row:
    """What a script tells in its last line: how often it tried, and how often it was right."""
    done = subprocess.run([sys.executable, *script], cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        print(done.stderr[-3000:], file=sys.stderr)
        return Row(what, 1, 0, ended_early(done.stderr))
    told = json.loads(done.stdout.splitlines()[-1])
    return Row(what, told["tries"], told["tries"] - told["recovered"], told["note"])


def page(rows: list[Row]) -> str:
    rows = list(dict.fromkeys(rows))
    lines = ["# Assurance", "",
             "Written by `make assurance`: the attacks, faults and fuzzers that are run against the package, and what",
             "came of them. A row that lost anything fails the command. A row marked as of an earlier run was not run",
             "again when the others were: it says nothing of changes since.", "",
             "| attack or fault | tries | survived | lost | |", "|---|---:|---:|---:|---|"]
    lines += [f"| {row.what} | {row.tries:,} | {row.survived:,} | {row.lost} | {row.note} |" for row in rows]
    lost = sum(row.lost for row in rows)
    when = datetime.now(UTC).date().isoformat()
    return "\n".join([*lines, "", f"Lost in all: **{lost}**. {when}.", "",
                      "Which promise each test stands for: [promises](promises.md).", "", f"{TREE}{tree()} -->", "",
                      *(notes.read_text(encoding="utf-8") for notes in NOTES)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=30, help="for each fuzzer")
    parser.add_argument("--soak", type=int, default=1000, help="rounds of the soak; 0: none")
    parser.add_argument("--only", default="", help="rows with this word in their names; the others stay")
    parser.add_argument("--missing", action="store_true", help="rows that the page has not of this tree")
    parser.add_argument("--jobs", type=int, default=1, help="rows at a time, each on a core of its own")
    parser.add_argument("--quick", action="store_true", help="people: fewer starts, lies and jobs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "assurance.md")
    how = parser.parse_args()
    tries = {what: lambda what=what, paths=paths: suite(what, paths) for what, paths in SUITES.items()}
    tries |= {f"fuzzing: {words}, coverage-guided": lambda kind=kind: fuzzed(kind, how.seconds)
              for kind, words in FUZZED.items()}
    tries |= {GRAM: from_gram}
    tries |= {what: lambda key=key: of_people(key, how.quick) for key, (_, what) in SCRIPTS.items()}
    tries |= {MUTATIONS: lambda: counted(MUTATIONS, "assurance/mutations.py")}
    tries |= {SOAK: lambda: soaked(how.soak)} if how.soak else {}
    rows = written(how.out) if how.only or how.missing else {}
    done = {what for what, row in rows.items() if how.missing and not row.note.endswith(EARLIER)}
    todo = {what: attempt for what, attempt in tries.items() if how.only in what and what not in done}
    for row in made(todo, how.jobs):
        rows[row.what] = row
        print(*row, sep=" | ", flush=True)
        kept(how.out, page([rows[name] for name in (*SUITES, *tries) if name in rows]))
    raise SystemExit(any(row.lost for row in rows.values()))


def made(todo: dict[str, Callable[[], Row]], jobs: int) -> Iterator[Row]:
    """Rows as they come to an end, `jobs` at a time: each is a process of its own. The longest begins first."""
    threads = itertools.count()
    with ThreadPoolExecutor(jobs, initializer=lambda: on_core(next(threads), jobs)) as pool:
        longest_first = sorted(todo, key=lambda what: what not in (SOAK, MUTATIONS))
        rows = [pool.submit(tried, what, todo[what]) for what in longest_first]
        try:
            for row in as_completed(rows):
                yield row.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def on_core(number: int, jobs: int) -> None:
    """What this thread starts computes there: two rows that share two cores wait for each other's threads."""
    if jobs > 1 and hasattr(os, "sched_setaffinity"):
        known = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {known[number % len(known)]})


def tried(what: str, attempt: Callable[[], Row]) -> Row:
    """A row that comes to no end is one that lost, and keeps no other from being run."""
    try:
        return attempt()
    except Exception as error:  # whatever a script left unsaid
        return Row(what, 1, 0, ended_early(f"{type(error).__name__}: {error}"))


def kept(path: Path, text: str) -> None:
    """The whole page or the one before."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def tree() -> str:
    """What git has of the code that rows are of; '': no tree, or one with changes that git has not."""
    code = "src", "tests", "assurance/*.py"
    changed = subprocess.run(["git", "status", "--porcelain", "--", *code], cwd=ROOT, capture_output=True, text=True,
                             check=False)
    known = subprocess.run(["git", "ls-files", "-s", "--", *code], cwd=ROOT, capture_output=True, text=True,
                           check=False)
    return "" if changed.stdout or not known.stdout else hashlib.sha256(known.stdout.encode()).hexdigest()[:12]


def written(path: Path) -> dict[str, Row]:
    """The rows of an earlier page, which a run of some leaves as they are; those of another tree are marked."""
    text, now = path.read_text(encoding="utf-8"), tree()
    same = bool(now) and f"{TREE}{now} -->" in text
    table = text.partition("\nLost in all")[0]  # below it are others
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
             if line.startswith("| ") and not line.startswith("| attack or fault")]
    return {what: Row(what, int(tries.replace(",", "")), int(survived.replace(",", "")),
                      note if same or note.endswith(EARLIER) else note + EARLIER)
            for what, tries, survived, _, note in cells}


if __name__ == "__main__":
    main()
