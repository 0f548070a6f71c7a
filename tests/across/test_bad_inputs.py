"""Every bad input of the design (file, values, treatment and outcome, size, study file), through `fedci run`:
exit code 2, one line that names what to mend, no traceback, and never a cell.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedci.cli import commands, fitting

SECRET_NUMBER = "987654321.125"
SECRET_TEXT = "SECRETCELL"
ROWS = 80
CLEAR = 'policy = { name = "custom", secure_sum = "auto", statistics_per_row = 2.0, numbers_per_person = 1e9 }\n'
"""`standard` but for what one site of 80 people does not have."""
STUDY = f"""
treatment = "treated"
outcome = "ldl"
{CLEAR}[covariates.age]
range = [0, 120]
[covariates.bmi]
[covariates.sex]
type = "binary"
[covariates.stage]
type = "categorical"
levels = ["I", "II", "III"]
"""


def good_frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "treated": np.arange(ROWS) % 2, "ldl": rng.normal(size=ROWS), "age": rng.uniform(20, 90, ROWS),
        "bmi": rng.normal(25, 3, ROWS), "sex": rng.integers(0, 2, ROWS),
        "stage": rng.choice(["I", "II", "III"], ROWS)})
    return frame.astype(object)


class Inputs:
    """A good study and a good site; each row of the table spoils one thing."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.folder, self.monkeypatch = folder, monkeypatch
        self.frame = good_frame()
        self.study_file, self.data = folder / "study.toml", folder / "lyon.csv"
        self.study_file.write_text(STUDY)
        self.sites = {"lyon": self.data}
        self.more: list[str] = []
        self.out = folder / "out"
        self.write_frame()

    def write_frame(self) -> None:
        self.frame.to_csv(self.data, index=False)

    def site_file(self, name: str, data: bytes) -> None:
        self.sites = {"lyon": self.folder / name}
        self.sites["lyon"].write_bytes(data)

    def parquet(self) -> None:
        self.sites = {"lyon": self.folder / "lyon.parquet"}
        self.frame.infer_objects().to_parquet(self.sites["lyon"])

    def arguments(self) -> list[str]:
        sites = [word for name, path in self.sites.items() for word in ("--site", f"{name}={path}")]
        return ["run", str(self.study_file), *sites, "--out", str(self.out), *self.more]


# ── what spoils them ────────────────────────────────────────────────────────────────────────────────────────


def cell(column: str, value: object) -> Callable[[Inputs], None]:
    """In data row 7, which is line 8 of the file."""
    def spoil(inputs):
        inputs.frame.loc[6, column] = value
        inputs.write_frame()
    return spoil


def column(name: str, values: object | Callable[[pd.DataFrame], object]) -> Callable[[Inputs], None]:
    def spoil(inputs):
        inputs.frame[name] = values(inputs.frame) if callable(values) else values
        inputs.write_frame()
    return spoil


def rows(count: int) -> Callable[[Inputs], None]:
    return lambda inputs: inputs.frame.iloc[:count].to_csv(inputs.data, index=False)


def text(change: Callable[[str], str]) -> Callable[[Inputs], None]:
    return lambda inputs: inputs.data.write_text(change(inputs.data.read_text()))


def study(addition: str) -> Callable[[Inputs], None]:
    """Keys go before the tables of the good study, and tables after them."""
    base = STUDY.replace(CLEAR, "") if "policy" in addition else STUDY
    addition = addition.replace("[policy]\n", '[policy]\nname = "custom"\n')
    whole = f"{base}\n{addition}" if addition.startswith("[") else f"{addition}\n{base}"
    return lambda inputs: inputs.study_file.write_text(whole)


def study_with(old: str, new: str) -> Callable[[Inputs], None]:
    return lambda inputs: inputs.study_file.write_text(STUDY.replace(old, new))


def study_of(covariates: str) -> Callable[[Inputs], None]:
    whole = f'treatment = "w"\noutcome = "y"\ncovariates = {covariates}'
    return lambda inputs: inputs.study_file.write_text(whole)


def call(*words: str) -> Callable[[Inputs], None]:
    return lambda inputs: inputs.more.extend(words)


def unreadable(inputs: Inputs) -> None:
    """By a patch: tests may run as root, whom no permission stops."""
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))
    inputs.monkeypatch.setattr(Path, "read_bytes", refuse)


def duplicate_columns(inputs: Inputs) -> None:
    header, *lines = inputs.data.read_text().splitlines()
    inputs.data.write_text("\n".join([f"{header},age", *(f"{line},{SECRET_NUMBER}" for line in lines)]))


def semicolons(inputs: Inputs) -> None:
    inputs.frame.to_csv(inputs.data, index=False, sep=";", decimal=",")


def corrupt_parquet(inputs: Inputs) -> None:
    inputs.parquet()
    path = inputs.sites["lyon"]
    path.write_bytes(path.read_bytes()[:-40])


def float_ids(inputs: Inputs) -> None:
    study('ids = ["pid"]')(inputs)
    inputs.frame["pid"] = float(SECRET_NUMBER)
    inputs.parquet()


def ids(values: list, addition: str = "") -> Callable[[Inputs], None]:
    """A second, good site beside one whose first ids are these."""
    def spoil(inputs):
        inputs.study_file.write_text(f'ids = ["pid"]\n{STUDY}\n{addition}')
        good = [f"{SECRET_TEXT}{i}" for i in range(ROWS)]
        inputs.sites = {"oslo": inputs.folder / "oslo.csv", "lyon": inputs.data}
        inputs.frame.assign(pid=values + good[len(values):]).to_csv(inputs.data, index=False)
        inputs.frame.assign(pid=good if not addition else values).to_csv(inputs.sites["oslo"], index=False)
    return spoil


def open_quote(inputs: Inputs) -> None:
    cell("stage", "OPEN")(inputs)
    text(lambda whole: whole.replace("OPEN", f'"{SECRET_TEXT}'))(inputs)


def levels(count: int) -> Callable[[Inputs], None]:
    return study_with('["I", "II", "III"]', str([f"L{i}" for i in range(count)]))


def full_folder(inputs: Inputs) -> None:
    inputs.out.mkdir()
    (inputs.out / "earlier.txt").write_text("kept")


FILE = {
    "missing": (lambda i: i.data.unlink(), "site 'lyon'", "does not exist"),
    "a directory": (lambda i: (i.data.unlink(), i.data.mkdir()), "site 'lyon'", "folder"),
    "empty": (lambda i: i.data.write_bytes(b""), "site 'lyon'", "empty"),
    "blank lines only": (lambda i: i.data.write_bytes(b"\n\n \n"), "site 'lyon'", "header"),
    "header only": (rows(0), "site 'lyon'", "no rows"),
    "header only, no line end": (text(lambda t: t.splitlines()[0]), "site 'lyon'", "no rows"),
    "no header": (text(lambda t: t.partition("\n")[2]), "site 'lyon'", "header"),
    "unreadable": (unreadable, "site 'lyon'", "permission"),
    "not UTF-8": (lambda i: i.data.write_bytes(b"treated,ldl\n1,\xe9SECRETCELL\n"), "line 2", "UTF-8"),
    "UTF-16": (lambda i: i.data.write_text(i.data.read_text(), "utf-16"), "site 'lyon'", "UTF-16"),
    "UTF-16 without mark": (lambda i: i.data.write_text(i.data.read_text(), "utf-16-le"), "line 1", "UTF-16"),
    "ragged rows, short": (text(lambda t: t + "1,SECRETCELL\n"), f"line {ROWS + 2}", "2 cells"),
    "ragged rows, long": (text(lambda t: t + "1,2,3,4,5,6,SECRETCELL\n"), "7 cells", "comma"),
    "open quote": (open_quote, "line 8", "quotation mark"),
    "two open quotes": (text(lambda t: t.replace(",I\n", ',"I\n', 2)), "line", "quotation mark"),
    "wrong delimiter": (semicolons, "site 'lyon'", "semicolons"),
    "tabs": (lambda i: i.frame.to_csv(i.data, index=False, sep="\t"), "site 'lyon'", "tabs"),
    "over the size cap": (study("[policy]\nsecure_sum = 'auto'\nmax_file_bytes = 100"), "max_file_bytes", "'lyon'"),
    "NUL bytes": (cell("age", "SECRET\0CELL"), "line 8", "NUL"),
    "duplicate columns": (duplicate_columns, "'age'", "more than once"),
    "required column missing": (text(lambda t: t.replace("age,", "ages,", 1)), "'age'", "'ages'"),
    "type differs": (column("bmi", [SECRET_TEXT] * ROWS), "'bmi'", "numeric"),
    "corrupt Parquet": (corrupt_parquet, "site 'lyon'", "Parquet"),
    "CSV called Parquet": (lambda i: i.site_file("a.parquet", b"a\nSECRETCELL\n"), "site 'lyon'", "Parquet"),
    "another format": (lambda i: i.site_file("lyon.xlsx", b"PK SECRETCELL"), "site 'lyon'", ".csv"),
}

VALUES = {
    "empty cell": (cell("age", ""), "'age' has 1 missing value", "impute"),
    "NaN": (cell("age", "NaN"), "'age' has 1 missing value", "impute"),
    "NA in a categorical": (cell("stage", "NA"), "'stage' has 1 missing value", "impute"),
    "sentinel": (cell("age", SECRET_NUMBER), "'age'", "range [0, 120]", "row 7"),
    "+Inf": (cell("bmi", "inf"), "'bmi'", "infinite", "row 7"),
    "-Inf": (cell("bmi", "-Infinity"), "'bmi'", "infinite", "row 7"),
    "text in a numeric column": (cell("bmi", SECRET_TEXT), "'bmi'", "text", "row 7"),
    "decimal comma": (cell("bmi", SECRET_NUMBER.replace(".", ",")), "'bmi'", "comma", "row 7"),
    "1e400": (cell("bmi", "1e400"), "'bmi'", "row 7"),
    "collinear columns": (column("bmi", lambda frame: frame["age"] * 2 + 1), "'age'", "'bmi'", "Remove"),
    "duplicated column": (column("bmi", lambda frame: frame["age"]), "'age'", "'bmi'", "Remove"),
    "too many levels": (levels(41), "stage", "max_levels"),
    "too many levels for the rows": (levels(30), "'stage'", "max_level_share"),
    "unseen level": (cell("stage", SECRET_TEXT), "'stage'", "I, II, III", "row 7"),
    "scales apart": (column("bmi", lambda frame: frame["bmi"] * 1e10), "'age'", "'bmi'", "unit"),
    "binary other than 0 and 1": (cell("sex", SECRET_NUMBER), "'sex'", "0 and 1", "row 7"),
    "binary in words": (cell("sex", SECRET_TEXT), "'sex'", "1 for yes", "row 7"),
    "ids as floats": (float_ids, "'pid'", "text"),
}

TREATMENT_AND_OUTCOME = {
    "treatment not 0/1": (cell("treated", SECRET_NUMBER), "'treated'", "0 and 1", "row 7"),
    "treatment yes/no": (column("treated", ["yes", "no"] * (ROWS // 2)), "'treated'", "1 for treated"),
    "treatment missing": (cell("treated", ""), "'treated'", "1 row", "Drop"),
    "outcome missing": (cell("ldl", "NA"), "'ldl'", "1 row", "Drop"),
    "outcome text": (cell("ldl", SECRET_TEXT), "'ldl'", "row 7"),
    "one arm only": (column("treated", 1), "'treated'", "both arms", "allow_single_arm"),
    "an arm below the minimum": (column("treated", [1] * 19 + [0] * (ROWS - 19)), "19 treated rows", "20"),
    "constant outcome": (column("ldl", SECRET_NUMBER), "'ldl'", "constant"),
    "two roles": (study_with('outcome = "ldl"', 'outcome = "treated"'), "'treated'", "treatment"),
    "covariate is the outcome": (study("[covariates.ldl]"), "'ldl'", "outcome"),
}

SIZE = {
    "n = 0": (rows(0), "site 'lyon'", "no rows"),
    "n = 1": (rows(1), "1 row,", "50"),
    "n below the minimum": (rows(49), "49 rows", "50"),
}

STUDY_FILE = {
    "study missing": (lambda i: i.study_file.unlink(), "study.toml"),
    "study is a folder": (lambda i: (i.study_file.unlink(), i.study_file.mkdir()), "study.toml"),
    "study not UTF-8": (lambda i: i.study_file.write_bytes(b"name = '\xe9'"), "UTF-8"),
    "study not TOML": (study("treatment = "), "TOML", "line"),
    "study nested without end": (lambda i: i.study_file.write_text("a = " + "[" * 9000), "study.toml"),
    "study too large": (lambda i: i.study_file.write_bytes(b"#" * (2**20 + 1)), "study.toml"),
    "unknown key": (study('treatmant = "w"'), "'treatmant'", "'treatment'"),
    "unknown table": (study("[optimizer]\nrounds = 3"), "'optimizer'", "'optimiser'"),
    "unknown key of a covariate": (study_with("range = [0, 120]", "rang = [0, 120]"), "age", "'range'"),
    "unknown option": (study('[model]\nkernal = "rbf"'), "model.kernal", "'kernel'"),
    "missing key": (study_with('outcome = "ldl"', ""), "outcome"),
    "wrong type": (study_with('outcome = "ldl"', "outcome = 3"), "outcome"),
    "wrong type of a covariate": (study_with('"binary"', '"boolean"'), "sex", "'binary'"),
    "categorical without levels": (study_with('levels = ["I", "II", "III"]', ""), "stage", "levels"),
    "no covariates": (study_of("[]"), "covariates"),
    "covariate twice": (study_of('["a","a"]'), "'a'"),
    "rate zero": (study("[optimiser]\nlearning_rate = 0"), "learning_rate"),
    "rate negative": (study("[optimiser]\nlearning_rate = -1.0"), "learning_rate"),
    "rate NaN": (study("[optimiser]\nlearning_rate = nan"), "learning_rate"),
    "rounds 0": (study("[optimiser]\nrounds = 0"), "rounds"),
    "rounds above the policy": (study("[optimiser]\nrounds = 201"), "rounds = 201", "max_rounds = 200"),
    "rounds above the cap": (study("[policy]\nmax_rounds = 1001"), "max_rounds = 1001", "1000"),
    "unknown kernel": (study('[model]\nkernel = "rbff"'), "kernel", "'rbf'"),
    "unknown preset": (study('preset = "defualt"'), "'defualt'", "'default'"),
    "standard and looser": (study_with(CLEAR, 'policy = { min_cell = 0 }\n'), "min_cell = 0", "standard", "custom"),
    "unknown policy": (study('policy = "lax"'), "'lax'", "standard"),
    "arm floor without a reason": (study("[policy]\nmin_arm_rows = 9"), "min_arm_rows", "override_reason"),
    "epsilon zero": (study("[policy]\nepsilon = 0"), "epsilon"),
    "epsilon without delta": (study("[policy]\nepsilon = 1.0"), "epsilon", "delta"),
    "noise without bounds": (study("[policy]\nepsilon = 1.0\ndelta = 1e-6"), "outcome_range", "declared"),
    "epsilon negative": (study("[policy]\nepsilon = -1.0\ndelta = 1e-6"), "epsilon"),
    "delta zero": (study("[policy]\nepsilon = 1.0\ndelta = 0.0"), "delta"),
    "delta one": (study("[policy]\ndelta = 1.0"), "delta"),
    "repeated site ids": (study('sites = ["lyon", "lyon"]'), "sites", "'lyon'", "repeated"),
    "site id of other characters": (study('sites = ["Lyon!"]'), "'Lyon!'", "a-z"),
    "site not in the study": (study('sites = ["oslo", "lyons"]'), "'lyon'", "'lyons'"),
}

CALL = {
    "site without a path": (call("--site", "oslo"), "'oslo'", "NAME=DATA"),
    "site twice": (call("--site", "lyon=x.csv"), "'lyon'", "repeated"),
    "site traversal": (call("--site", "../x=x.csv"), "'../x'", "a-z"),
    "unknown preset in the call": (call("--preset", "papr"), "'papr'", "'paper'"),
    "negative seed": (call("--seed", "-1"), "--seed"),
    "output not empty": (full_folder, "--out", "--force"),
    "output is a file": (lambda i: i.out.write_text(""), "--out", "file"),
    "output is a link": (lambda i: i.out.symlink_to(i.folder), "--out", "link"),
    "output below a file": (lambda i: setattr(i, "out", i.data / "deep" / "out"), "--out", "lyon.csv"),
}


def constant_everywhere(inputs: Inputs) -> None:
    inputs.frame["bmi"] = float(SECRET_NUMBER)
    inputs.write_frame()
    inputs.monkeypatch.setattr(fitting, "_fit", REAL_FIT)


def too_many_rows(inputs: Inputs) -> None:
    inputs.monkeypatch.setattr("fedci.model.padding.bytes_available", lambda: 10_000)
    inputs.monkeypatch.setattr(fitting, "_fit", REAL_FIT)


DAYS = [f"{1 + i % 28}.{1 + i // 28}.1998" for i in range(ROWS)]
IDS = {
    "id missing": (ids(["A1", "", "NA"]), "site 'lyon'", "'pid'", "no id", "2 rows (first: row 2)"),
    "id repeated within the site": (ids(["x7", "B2", "X 7"]), "site 'lyon'", "rows 1 and 3", "drop"),
    "ambiguous dates": (ids(DAYS), "site 'lyon'", "'pid'", "day and month", "dates"),
    "a day that does not exist": (ids([*DAYS[:-1], "31.2.1998"], '[linkage]\ndates = { pid = "%d.%m.%Y" }'),
                                  "site 'oslo'", "'pid'", "%d.%m.%Y", f"row {ROWS}"),
}

REAL_FIT = fitting._fit
COORDINATOR = {
    "constant covariate at every site": (constant_everywhere, "'bmi'", "constant at the site"),
    "n² beyond memory": (too_many_rows, "'lyon'", "80 rows need about", "GiB"),
}
"""What only shows once the sites have been asked."""



def coded(addition: str, column: str = "", values: object = None, cell: object = None) -> Callable[[Inputs], None]:
    """`age` with these keys (or others in its place), and a column of the table that they read, one cell of it bad."""
    def spoil(inputs):
        if column:
            inputs.frame[column] = pd.Series(values, dtype=object)
        if cell is not None:
            inputs.frame.loc[6, column or "age"] = cell
        inputs.write_frame()
        old, new = "[covariates.age]\nrange = [0, 120]\n", f"[covariates.age]\n{addition}\n"
        if addition.startswith("treatment"):
            old, new = 'treatment = "treated"\n', f"{addition}\n"
        inputs.study_file.write_text(STUDY.replace(old, new))
    return spoil


def own_columns(text: str) -> Callable[[Inputs], None]:
    def spoil(inputs):
        (inputs.folder / "columns.toml").write_text(text)
        inputs.more += ["--columns", f"lyon={inputs.folder / 'columns.toml'}"]
    return spoil


def dropped_below(inputs: Inputs) -> None:
    study('rows_without = "drop"')(inputs)
    inputs.frame.loc[:34, "ldl"] = ""
    inputs.write_frame()


def repeated(inputs: Inputs) -> None:
    pd.concat([inputs.frame.iloc[:30]] * 4).to_csv(inputs.data, index=False)


ARMS, DAY = ["Y", "N"] * (ROWS // 2), ["01.02.2020"] * ROWS
CODINGS = {
    "treated with two other words": (coded('treatment = { name = "rx", treated = "Y" }', "rx", ARMS, "U"),
                                     "'rx'", "2 other words", "untreated"),
    "arm that nobody lists": (coded('treatment = { name = "rx", treated = "Y", untreated = "N" }', "rx", ARMS,
                                    SECRET_TEXT), "'rx'", "row 7", "Y, N"),
    "treated that nobody is": (coded('treatment = { name = "rx", treated = "X", untreated = ["Y", "N"] }', "rx", ARMS),
                               "'rx'", "both arms"),
    "treatment without a name": (study_with('treatment = "treated"', 'treatment = { treated = "Y" }'), "'name'"),
    "treatment with another key": (study_with('treatment = "treated"', 'treatment = { name = "rx", tretaed = "Y" }'),
                                   "'tretaed'", "'treated'"),
    "treated of a covariate": (coded('treated = "Y"'), "'age'", "values"),
    "untreated alone": (study_with('treatment = "treated"', 'treatment = { name = "rx", untreated = "N" }'), "treated"),
    "code that nobody lists": (coded('column = "g"\nvalues = { m = 1, f = 0 }', "g",
                                     ["m", "f"] * (ROWS // 2), SECRET_TEXT), "'g'", "row 7", "m, f"),
    "code listed twice": (coded('values = { a = 1 }\nmissing_codes = ["a"]'), "'a'", "twice"),
    "values and merge": (coded('values = { a = 1 }\nmerge = { b = ["c"] }'), "two readings"),
    "missing code left a gap": (coded("missing_codes = [50]", "age", [20 + i % 60 for i in range(ROWS)], 50),
                                "'age'", "missing value", "impute"),
    "sentinel without its code": (coded("range = [0, 100]", "age", [30 + i % 40 for i in range(ROWS)], 999),
                                  "'age'", "missing_codes", "row 7"),
    "values that are no table": (coded('values = ["Y", "N"]'), "values"),
    "unknown key of a coding": (coded("factr = 2"), "'factr'", "'factor'"),
    "factor zero": (coded("factor = 0"), "factor = 0"),
    "factor in words": (coded('factor = "2"'), "factor"),
    "factor infinite": (coded("factor = inf"), "factor"),
    "words computed with": (coded('values = { a = "b" }\nfactor = 2'), "words"),
    "text where numbers are computed": (coded('column = "g"\nfactor = 2', "g",
                                              [float(i) for i in range(ROWS)], SECRET_TEXT), "'g'", "row 7"),
    "cuts that fall": (coded("cuts = [60, 40]"), "cuts must rise"),
    "labels that do not fit": (coded('cuts = [40, 60]\nlabels = ["a", "b"]'), "3 parts", "2 labels"),
    "cut but numeric": (coded("cuts = [40, 60]"), "'age'", "text", "categorical"),
    "date without since": (coded('date = "%d.%m.%Y"'), "since"),
    "date of another form": (coded('date = "%H:%M"\nsince = "s"'), "%Y"),
    "a day that does not exist": (coded('column = "d"\nsince = "s"\ndate = "%d.%m.%Y"', "d", DAY,
                                        "30.02.2020"), "'s'", "missing"),
    "columns without combine": (coded('columns = ["bmi", "sex"]'), "combine"),
    "combine that nobody knows": (coded('columns = ["bmi", "sex"]\ncombine = "power"'), "combine"),
    "ratio of three": (coded('columns = ["bmi", "sex", "age"]\ncombine = "ratio"'), "two columns"),
    "division by zero": (coded('columns = ["bmi", "sex"]\ncombine = "ratio"'), "'sex'", "of 0", "missing_codes"),
    "column that is not there": (coded('column = "agee"'), "'agee'"),
    "coding of no column": (study("[coding.nobody]\nfactor = 2"), "nobody", "no such column"),
    "rows_without in other words": (study('rows_without = "skip"'), "rows_without"),
    "too few after dropping": (dropped_below, "45 rows", "50", "dropped"),
    "missing in other words": (study('missing = "drawn"'), "missing", "'model'"),
    "drawn beside imputed": (study_with(
        "range = [0, 120]", 'range = [0, 120]\nmissing = "impute"\n[covariates.kg]\nmissing = "model"'),
        "covariates.age", "one study"),
    "drawn under few": (study('missing = "model"\npreset = "few"'), "'few'", "draws nothing", "'default'"),
    "repeated rows": (repeated, "90 rows repeat another", "30 rows", "50"),
    "own columns that the study does not read": (own_columns('agee = "alter"'), "columns.toml", "'agee'", "'age'"),
    "own columns not TOML": (own_columns("age = "), "columns.toml", "TOML"),
    "own columns of no site": (call("--columns", "oslo=columns.toml"), "'oslo'", "--site"),
    "own columns missing": (call("--columns", "lyon=nowhere.toml"), "nowhere.toml", "cannot be read"),
    "own name not in the table": (own_columns('age = "alter"'), "'alter'", "missing"),
}
"""What a study or a site says of codes, and what tables make of it."""

BAD = {f"coding: {name}": one for name, one in CODINGS.items()} | {
    **FILE, **VALUES, **TREATMENT_AND_OUTCOME, **SIZE, **STUDY_FILE, **CALL, **IDS, **COORDINATOR}


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "_fit", lambda *_, **__: pytest.fail("a bad input reached the fit"))
    return Inputs(tmp_path, monkeypatch)


def outcome_of(arguments: list[str], capsys) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        commands.main(arguments)
    told = capsys.readouterr()
    return left.value.code, told.out, told.err


@pytest.mark.parametrize("spoil, fragments", [(row[0], row[1:]) for row in BAD.values()], ids=list(BAD))
def test_bad_input(inputs, capsys, spoil, fragments):
    spoil(inputs)
    code, out, err = outcome_of(inputs.arguments(), capsys)
    assert code == 2, err
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for fragment in fragments:
        assert fragment in err
    for secret in ("SECRET", "987654321", "125"):
        assert secret not in err.replace(str(inputs.folder), "")


def test_the_good_input_reaches_the_fit(inputs, capsys, monkeypatch):
    """Else the rows above could all fail for one wrong reason."""
    fits = []
    monkeypatch.setattr(fitting, "_fit", lambda *given, **named: fits.append((given, named)))
    assert outcome_of(inputs.arguments(), capsys) == (0, "", "")
    [((_, tables, out), named)] = fits
    assert ([table.site for table in tables], out) == (["lyon"], inputs.out)
    assert named == {"preset": "default", "seed": 0, "force": False, "quiet": False, "as_json": False}


def test_sums_of_fewer_than_three_sites_are_refused_by_the_policy(inputs, capsys):
    """Not a mistake to mend: exit code 3."""
    inputs.study_file.write_text(STUDY.replace(CLEAR, ""))
    code, _, err = outcome_of(inputs.arguments(), capsys)
    assert code == 3
    assert "at least 3 sites, got 1" in err
    assert "third site" in err


def test_the_call_overrides_the_study(inputs, capsys, monkeypatch):
    fits = []
    monkeypatch.setattr(fitting, "_fit", lambda *_, **named: fits.append(named))
    study('policy = "simulation"\nseed = 5')(inputs)
    inputs.more = ["--preset", "paper", "--seed", "0", "--force", "--quiet"]
    full_folder(inputs)
    assert outcome_of(inputs.arguments(), capsys)[0] == 0
    assert fits[0] | {"preset": "paper", "seed": 0, "force": True, "quiet": True} == fits[0]
