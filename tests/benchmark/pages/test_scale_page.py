"""The page of the scale: made from its tables alone, and again to the same bytes."""

import pytest

from fedci.benchmark.cost import scale
from fedci.benchmark.pages import scale_page
from fedci.errors import UsageError

PAGE = f"# Cost\n\n{scale_page.BEGIN}\nold\n{scale_page.END}\n\nAfter.\n"


def fitted(sites, rows, seconds, options="{}", device="cpu"):
    return {"sites": sites, "rows": rows, "seconds": seconds, "fit": seconds, "effects": 1.0, "a round": 0.5,
            "rounds": 40, "first": 20, "to 0.1": 35, "verdict": "converged", "error": 0.1, "GiB": rows / 1000,
            "MB a site": 20.0, "device": device, "cores": 2, "options": options, "fedci": "0", "jax": "0"}


def forest(rows, seconds, error):
    return {"method": "CausalForestDML", "sites": 10, "rows": rows, "seconds": seconds, "fit": seconds, "asked": 400,
            "error": error, "GiB": 1.0, "cores": 2, "econml": "0", "limit": 900.0}


@pytest.fixture
def folder(tmp_path):
    """Two sizes, the smaller measured twice: the newest counts. Seconds grow with the power ½, memory with 1."""
    rows = [fitted(10, 1000, 99.0), fitted(10, 1000, 10.0), fitted(10, 100_000, 100.0),
            fitted(5, 1000, 7.0, '{"a": 1}'), fitted(10, 1000, 20.0, '{"b": 2}')]
    scale.keep(rows[:1], tmp_path / "fits.csv")
    scale.keep(rows[1:], tmp_path / "fits.csv")
    size = {"sites": 10, "rows": 1000, "device": "cpu", "options": "{}"}
    scale.keep([size | {"round": k, "seconds": float(k), "objective": -2.0**-k, "few": int(k < 3)} for k in range(8)],
               tmp_path / "rounds.csv")
    scale.keep([forest(1000, 20.0, 0.3), forest(100_000, float("inf"), float("nan"))], tmp_path / "peers.csv")
    scale.keep([{"kernel": "product", "ms": 1.0, "GFLOP/s": 20.0, "of the limit": 0.5}], tmp_path / "hot.csv")
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path


def test_the_page_says_what_the_tables_say(folder):
    scale_page.write(folder, folder / "page.md")
    text = (folder / "page.md").read_text()
    assert text.startswith("# Cost\n\n")
    assert text.endswith("\n\nAfter.\n")
    assert "old" not in text
    assert "| 10 × 1,000 | 2 cores | 10 |" in text
    assert "| 99 |" not in text
    assert "seconds grow with the power 0.50 of the rows and memory with 1.00, from 1,000 to 100,000 rows" in text
    assert '| 5 × 1,000 `{"a": 1}` | 2 cores | 7 |' in text
    assert 'the default\'s error is 1.00 times that with `{"b": 2}`, its seconds 0.50 times.' in text
    assert "2 cores, 5 × 1,000: the default's" not in text  # no default of that size
    assert "| 10 × 1,000 | CausalForestDML | 20 | 0.3 | 2.00 | 3.0 |" in text
    assert "| 10 × 100,000 | CausalForestDML | over 900 (given up) | – | over 9.0 | – |" in text
    assert "| product | 1.0 | 20.0 | 50 % |" in text
    drawn = {path.stem for path in (folder / "figures").glob("*.svg")}
    assert drawn == {"scale-rows-seconds", "scale-rows-memory", "scale-rounds-objective"}
    before = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    scale_page.write(folder, folder / "page.md")
    assert (folder / "page.md").read_text() == text
    assert {path.name: path.read_bytes() for path in (folder / "figures").iterdir()} == before


def test_without_tables_or_marks_it_says_what_is_needed(folder, tmp_path_factory):
    with pytest.raises(UsageError, match="needs fits.csv"):
        scale_page.write(tmp_path_factory.mktemp("none"), folder / "page.md")
    (folder / "page.md").write_text("no marks")
    with pytest.raises(UsageError, match="the marks"):
        scale_page.write(folder, folder / "page.md")
