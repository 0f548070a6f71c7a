"""One row per request: the rows are whole, the shapes those of the model, and a new row is known everywhere at once."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import fedci
from fedci import Source
from fedci.cli import progress
from fedci.coordinator import diagnoses, masked_sums
from fedci.coordinator.coordinator import Round, agree_units, handshake, terms_of
from fedci.coordinator.talk import PlainSums, Talk
from fedci.errors import DisclosureError, SiteError
from fedci.model.families import model_of
from fedci.model.family import Ask
from fedci.model.shared import evidence
from fedci.protocol.ask import request_of, shapes, sizes
from fedci.protocol.codec import decode, encode
from fedci.protocol.messages import TYPES, AskDiagnostic, AskMoments, Message, Refusal, Reply
from fedci.protocol.requests import MASKED, NO_PHASE, OWN, REQUESTS, SIZES, Array, Request, asked, row_of
from fedci.site import diagnosing
from fedci.site.door import Door, check_leaving
from fedci.site.ledger import Ledger, read
from fedci.site.release import Sum, release
from fedci.site.site import Site
from tests_support import frame, study

BASE = ("run", 1, "a")
PAGE = Path(fedci.__file__).parents[2] / "docs" / "security.md"


# --- the rows


def test_every_request_has_a_row_and_every_row_its_own_name():
    assert {row.message.__name__ for row in REQUESTS.values()} == TYPES.keys() - {"Reply", "Refusal", "Tokens"}
    assert all(name == row.name and name.partition(".")[0] == row.message.__name__ for name, row in REQUESTS.items())
    assert {row.kind for row in REQUESTS.values() if row.message is AskDiagnostic} == diagnosing.KINDS.keys()


@pytest.mark.parametrize("row", REQUESTS.values(), ids=REQUESTS)
def test_a_row_is_whole(row):
    names = [array.name for array in row.answer]
    assert len(set(names)) == len(names)
    assert set(row.by_site) <= set(names)
    assert {length for array in (*row.answer, *row.added) for length in array.shape
            if isinstance(length, str)} <= SIZES.keys()
    assert row.summed or not (row.by_site or row.masked or row.bounded or row.draws)
    assert not (row.summed and any(array.flag for array in row.added))  # flags of sites are no sum
    assert row.leaves(secure=True) == ({MASKED, *(OWN + name for name in row.by_site if not row.averaged)}
                                       if row.summed else set(names))


def test_what_is_no_request_has_no_phase_and_no_answer():
    for message in (None, Reply(*BASE), AskDiagnostic(*BASE, "ages", {}), AskDiagnostic(*BASE, "", {})):
        row = row_of(message)
        assert (row.phase, row.leaves(False), row.notes_beside(False), row.in_full) == (NO_PHASE, set(), set(), False)
    assert asked(AskDiagnostic(*BASE, "ages", {})) == "AskDiagnostic"
    assert asked(AskDiagnostic(*BASE, "balance", {})) == "AskDiagnostic.balance"
    assert asked(AskMoments(*BASE)) == "AskMoments"


def test_an_ask_becomes_the_message_of_its_row():
    values = {"centre": np.zeros(2)}
    overlap = request_of(Ask("AskDiagnostic.overlap", values), BASE, 0, {"sum": np.ones(1)})
    assert overlap == AskDiagnostic(*BASE, "overlap", values)
    own = request_of(Ask("AskEffects", {
        "theta": np.zeros(3), "phi_roots": np.zeros((4, 2, 2)), "sigma_roots": np.zeros((4, 2, 2)),
        "g": np.arange(24.0).reshape(4, 3, 2), "correlations": np.zeros(1)}), BASE, 1, {})
    assert np.array_equal(own.g, np.arange(24.0).reshape(4, 3, 2)[:, 1])


@pytest.mark.parametrize("draws", [1, 5])
def test_the_shapes_of_a_fit_are_the_models(draws):
    model = model_of(study(preset="default").fit_options().model, 4, 3, 2)
    thetas = np.zeros((draws, model.size))
    assert shapes(model, Ask("AskStatistics", {"thetas": thetas})) == evidence.shapes(model, draws) | {"failed": ()}
    assert shapes(model, Ask("PullBack", {"thetas": thetas})) == {"gradient": thetas.shape}
    ask = Ask("AskSharedEffects", {"thetas": thetas, "betas": np.zeros((draws, 8, 2)), "correlations": np.zeros(4)})
    assert shapes(model, ask)["ite_mean"] == (8 * draws, 4, 3)
    assert shapes(model, ask, averaged=True)["ite_mean"] == (1, 4, 3)
    assert shapes(model, ask, averaged=True) == REQUESTS[ask.name].own_shapes(sizes(ask.arrays, model))


def test_the_page_has_the_table():
    sys.path.insert(0, str(PAGE.parent))
    try:
        from requests_page import with_requests
    finally:
        sys.path.remove(str(PAGE.parent))
    text = PAGE.read_text(encoding="utf-8")
    assert with_requests(text) == text, "run `make architecture`"


# --- a row more

TOY = Request(name="AskDiagnostic.totals", message=AskDiagnostic, phase="checks", summed=True, by_site=("treated",),
              in_full=True, most=2, words="totals of columns", slow=True,
              answer=(Array("column_totals", ("covariates",), "sum of each covariate"),
                      Array("treated", (), "how many are treated")))


def totals(here: diagnosing.Here, values: dict) -> dict[str, np.ndarray]:
    return {"column_totals": here.rows().sum(0), "treated": np.array(here.table.w.sum(), float)}


class Doors:
    """Sites behind their doors, each with its ledger."""

    def __init__(self, sites: dict[str, Site], folder: Path):
        self.sites = tuple(sorted(sites))
        self.doors = {name: Door(site, Ledger(folder / name), folder / name) for name, site in sites.items()}

    def exchange(self, requests: dict[str, Message]) -> dict[str, Message]:
        return {name: decode(self.doors[name].answer(encode(request))) for name, request in requests.items()}


@pytest.fixture
def toy(monkeypatch):
    """All that a new diagnostic is to the package: its row, and what computes it at a site."""
    monkeypatch.setitem(REQUESTS, TOY.name, TOY)
    monkeypatch.setitem(diagnosing.KINDS, "totals", totals)


def agreed(folder: Path, secure: bool) -> tuple[Talk, dict[str, Site]]:
    """Three sites behind doors that know the common units."""
    plan = study(diagnostics={}, policy={"name": "simulation", "secure_sum": secure})
    sites = {name: Site(plan, Source(name, frame(40 + s, s)).read(plan)) for s, name in enumerate("abc")}
    talk = Talk(Doors(sites, folder), "run")
    handshake(talk, plan, plan.fit_options())
    sums = masked_sums.agree(talk) if secure else PlainSums()
    return talk.on(terms_of(agree_units(talk, plan, plan.fit_options()), plan, sums)), sites


@pytest.mark.usefixtures("toy")
def test_a_new_diagnostic_is_asked_in_the_clear_and_kept_in_the_ledger(tmp_path):
    talk, sites = agreed(tmp_path, secure=False)
    replies, away = diagnoses._ask(talk, "totals", {"centre": np.zeros(3)}, talk.sites)
    assert away == {}
    for name, reply in replies.items():
        assert np.array_equal(reply.sums["column_totals"], sites[name].run.table.x.sum(0))
        line = read(tmp_path / name)[-1]
        assert (line["phase"], line["request"], line["sums"]) == ("checks", TOY.name,
                                                                  {"column_totals": [3], "treated": []})
        assert line["values"]["treated"] == sites[name].run.table.w.sum()


@pytest.mark.usefixtures("toy")
def test_a_new_diagnostic_is_masked_but_for_what_is_told_of_sites(tmp_path):
    talk, sites = agreed(tmp_path, secure=True)
    total, refused = diagnoses._summed(talk, "totals", {"centre": np.zeros(3)})
    assert refused == {}
    assert total.sums.keys() == {"column_totals"}
    expected = sum(site.run.table.x.sum(0) for site in sites.values())
    np.testing.assert_allclose(total.sums["column_totals"], expected, rtol=1e-14)  # fixed point: 1e-22 of a unit
    assert {name: float(own["treated"]) for name, own in total.sites.items()} == {
        name: site.run.table.w.sum() for name, site in sites.items()}
    line = next(line for line in read(tmp_path / "a") if line["request"] == TOY.name)
    assert line["sums"].keys() == {MASKED, OWN + "treated"}
    assert line["values"].keys() == {OWN + "treated"}


@pytest.mark.usefixtures("toy")
def test_a_site_that_may_not_tell_a_new_diagnostic_adds_zeros(tmp_path, monkeypatch):
    def withheld(here, values):
        raise DisclosureError("too few")

    talk, sites = agreed(tmp_path, secure=True)
    monkeypatch.setitem(diagnosing.KINDS, "totals", lambda here, values: (
        withheld if here.table.site == "b" else totals)(here, values))
    total, _ = diagnoses._summed(talk, "totals", {"centre": np.zeros(3)})
    assert total.withheld == {"b": DisclosureError.code}
    expected = sum(sites[name].run.table.x.sum(0) for name in "ac")
    np.testing.assert_allclose(total.sums["column_totals"], expected, rtol=1e-14)


@pytest.mark.usefixtures("toy")
def test_the_door_of_a_new_diagnostic_lets_out_its_arrays_alone(tmp_path):
    request = AskDiagnostic(*BASE, "totals", {"centre": np.zeros(3)})
    check_leaving(request, Reply(*BASE, {"column_totals": np.zeros(3), "treated": np.zeros(())}))
    for foreign in ({"hessian": np.zeros(3)}, {MASKED: np.zeros(3)}):
        with pytest.raises(DisclosureError):
            check_leaving(request, Reply(*BASE, foreign))
    with pytest.raises(DisclosureError):
        check_leaving(request, Reply(*BASE, {"column_totals": np.zeros(3)}), secure=True)


@pytest.mark.usefixtures("toy")
def test_a_new_diagnostic_is_answered_as_often_as_its_row_says(tmp_path):
    talk, _ = agreed(tmp_path, secure=False)
    for k in range(TOY.most):
        assert diagnoses._ask(talk, "totals", {"centre": np.full(3, float(k))}, ("a",))[1] == {}
    request = request_of(Ask(TOY.name, {"centre": np.full(3, 9.0)}), ("run", talk.round + 1, "a"), 0, {})
    refusal = talk.engine.exchange({"a": request})["a"]
    assert isinstance(refusal, Refusal)
    assert refusal.code == SiteError.code


@pytest.mark.usefixtures("toy")
def test_check_and_the_progress_line_tell_of_a_new_diagnostic():
    plan = study(diagnostics={})
    sums = release(plan, Source("a", frame(40, 0)).read(plan)).sums
    assert [part for part in sums if part.name in ("column_totals", "treated")] == [
        Sum("checks", "column_totals", (3,), 2, "sum of each covariate"),
        Sum("checks", "treated", (), 2, "how many are treated")]
    with progress.round_progress(console=Console(file=io.StringIO(), force_terminal=True, width=140)) as show:
        show(Round(number=1, cap=20, objective=-5.0, gradient_norm=1.0, seconds=30.0))
        show.watch(TOY.name, 0, 3)
        assert show.bar.tasks[0].fields["line"] == "totals of columns: site 1 of 3"


@pytest.mark.usefixtures("toy")
def test_the_page_would_show_a_new_diagnostic():
    sys.path.insert(0, str(PAGE.parent))
    try:
        from requests_page import requests
    finally:
        sys.path.remove(str(PAGE.parent))
    assert "| `AskDiagnostic.totals` | checks | column_totals [covariates], treated |" in requests()
