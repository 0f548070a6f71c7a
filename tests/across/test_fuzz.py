"""Bytes from elsewhere: the kept corpus and fresh ones come to an answer or to an error of ours, in bounded memory."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz_targets import TARGETS, csv, messages, study

TESTS = Path(__file__).parents[1]
CORPUS = TESTS / "corpus"
MEMORY = 3 * 2**30
"""Bytes of address space: the libraries alone map about 1.5 GiB, and no file of the corpus is over 100 kB."""
REPLAY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from fuzz_targets import TARGETS
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]),) * 2)
from pathlib import Path
for name, target in TARGETS.items():
    read = [target(path.read_bytes()) for path in sorted((Path(sys.argv[2]) / name).iterdir())]
    print(name, len(read), sum(read))
"""


def test_the_corpus_under_a_memory_limit():
    """Every file of it, in a process that may not take more; of each kind some are good and some are not."""
    done = subprocess.run([sys.executable, "-c", REPLAY, str(TESTS), str(CORPUS), str(MEMORY)],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    counts = {line.split()[0]: tuple(map(int, line.split()[1:])) for line in done.stdout.splitlines()}
    assert counts.keys() == TARGETS.keys()
    for kind, (files, read) in counts.items():
        assert 0 < read < files, kind


@settings(max_examples=150)
@given(st.binary(max_size=400))
def test_any_bytes_are_no_surprise(data):
    for target in (messages, study):
        target(data)


cells = st.sampled_from(["1", "0", "NA", "", "1e400", "-1", "1,5", "I", "II", "IV", "nan", "inf", chr(34), "é", "\0",
                         "9" * 40, "=1+1", "0x1", "1_000", " 1 ", "true"])


@settings(max_examples=60)
@given(st.lists(st.lists(cells, min_size=4, max_size=7), min_size=1, max_size=6),
       st.sampled_from(["id,age,sex,stage,w,y", "id;age;sex;stage;w;y", "age,sex,stage,w,y", "id,id,age,sex,w,y"]),
       st.sampled_from(["\n", "\r\n", "\r"]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_any_table_is_read_or_refused(rows, header, end, encoding):
    csv(end.join([header, *(",".join(row) for row in rows)]).encode(encoding))


keys = st.sampled_from(["treatment", "outcome", "covariates", "policy", "sites", "seed", "preset", "ids", "quorum",
                        "name", "epsilon", "noised", "secure_sum", "x"])
values = st.recursive(st.sampled_from(['"w"', '"y"', "1", "-1", "1e400", "nan", "true", '"standard"', '"none"', '"a"',
                                       "1979-05-27", '"' + "k" * 90 + '"']),
                      lambda part: st.lists(part, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")
                      | st.dictionaries(keys, part, max_size=3).map(
                          lambda table: f"{{ {', '.join(f'{k} = {v}' for k, v in table.items())} }}"), max_leaves=6)


@settings(max_examples=150)
@given(st.dictionaries(keys, values, max_size=6), st.dictionaries(keys, values, max_size=3))
def test_any_study_is_read_or_refused(top, table):
    lines = [f"{key} = {value}" for key, value in ({"treatment": '"w"', "outcome": '"y"', "covariates": '["a"]'}
                                                   | top).items() if not (table and key == "policy")]
    lines += ["[policy]", *(f"{key} = {value}" for key, value in table.items())] if table else []
    study("\n".join(lines).encode())


@pytest.mark.parametrize("kind", TARGETS)
def test_the_corpus_is_small(kind):
    files = list((CORPUS / kind).iterdir())
    assert len(files) >= 5
    assert sum(path.stat().st_size for path in files) < 200_000
