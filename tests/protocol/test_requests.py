"""One row per request: the rows are whole, the shapes those of the model, and a new row is known everywhere at once."""

import io
from pathlib import Path

import numpy as np
import pytest
import requests_page
from rich.console import Console

import fedci
from fedci import Source
from fedci.cli import progress
from fedci.coordinator.coordinator import Round, handshake, open_course
from fedci.coordinator.talk import GIVEN_UP, Talk
from fedci.errors import DisclosureError, SiteError
from fedci.model.families import FAMILIES, model_of
from fedci.model.family import Ask
from fedci.model.shared import evidence
from fedci.protocol import course
from fedci.protocol.ask import shapes, sizes
from fedci.protocol.codec import decode, encode
from fedci.protocol.course import Contract
from fedci.protocol.messages import TYPES, AskMaskKey, Message, Refusal, Reply, Step
from fedci.protocol.requests import COMPLETION, MASKED, NO_PHASE, OWN, REQUESTS, SIZES, Array, Request, asked, row_of
from fedci.site import diagnosing, targeting
from fedci.site.describing import Part
from fedci.site.door import Door, check_leaving
from fedci.site.ledger import Ledger, read
from fedci.site.release import Sum, release
from fedci.site.site import Site
from fedci.site.summing import DESCRIBED
from fedci.study.options import preset
from tests_support import frame, study

BASE = ("run", 1, "a")
PAGE = Path(fedci.__file__).parents[2] / "docs" / "security.md"


# --- the rows


def test_every_request_has_a_row_and_every_row_its_own_name():
    assert {row.message.__name__ for row in REQUESTS.values()} == TYPES.keys() - {"Reply", "Refusal", "Tokens"}
    assert all(name == row.name for name, row in REQUESTS.items())
    assert all(name == row.message.__name__ for name, row in REQUESTS.items() if row.message is not Step)


def test_every_step_has_a_row_and_something_that_computes_it():
    steps = {name for name, row in REQUESTS.items() if row.message is Step}
    models = [model_of(preset(name).model, 2, 2, 1, outcome)
              for name, outcome in (("classic", "numeric"), ("default", "numeric"), ("default", "binary"),
                                    ("few", "numeric"), ("default", "survival"), ("default", "count"))]
    models.append(model_of(preset("default").model, 2, 2, 1, arms=3))
    assert {type(model) for model in models} == set(FAMILIES.values())
    asks = {name for model in models for name in model.asks}
    assert steps == {*DESCRIBED, course.READY, course.BEGIN, COMPLETION, *asks,
                     *(f"AskDiagnostic.{kind}" for kind in (*diagnosing.KINDS, *targeting.KINDS))}
    assert {row.kind for row in REQUESTS.values()} == {"", *diagnosing.KINDS, *targeting.KINDS}
    assert {name for name, row in REQUESTS.items() if row.optional} == {name for name in steps if "." in name}


@pytest.mark.parametrize("row", REQUESTS.values(), ids=REQUESTS)
def test_a_row_is_whole(row):
    names, own = ([array.name for array in arrays] for arrays in (row.answer, row.own))
    assert len(set(names)) == len(names)
    assert len(set(own)) == len(own)
    assert {length for array in (*row.answer, *row.own) for length in array.shape
            if isinstance(length, str)} <= SIZES.keys()
    assert row.summed or not (own or row.draws or row.optional or row.averaged)
    assert bool(names) == row.summed or row.phase == "linkage"
    assert row.leaves(secure=True) == ({MASKED, *(OWN + name for name in own if not row.averaged)}
                                       if row.summed else set(names))


def test_what_is_no_request_has_no_phase_and_no_answer():
    for message in (None, Reply(*BASE), Step(*BASE, "AskDiagnostic.ages"), Step(*BASE, "AskAges"), Step(*BASE, "")):
        row = row_of(message)
        assert (row.phase, row.leaves(False), row.notes_beside(False), row.in_full) == (NO_PHASE, set(), set(), False)
    assert asked(Step(*BASE, "AskDiagnostic.ages")) == "Step"
    assert asked(Step(*BASE, "AskDiagnostic.balance")) == "AskDiagnostic.balance"
    assert asked(AskMaskKey(*BASE)) == "AskMaskKey"


@pytest.mark.parametrize("draws", [1, 5])
def test_the_shapes_of_a_fit_are_the_models(draws):
    model = model_of(study(preset="default").fit_options().model, 4, 3, 2)
    thetas = np.zeros((draws, model.size))
    assert shapes(model, Ask("AskStatistics", {"thetas": thetas})) == evidence.shapes(model, draws) | {"failed": ()}
    assert shapes(model, Ask("PullBack", {"thetas": thetas})) == {"gradient": thetas.shape, "failed": ()}
    ask = Ask("AskSharedEffects", {"thetas": thetas, "betas": np.zeros((draws, 8, 2)), "correlations": np.zeros(4)})
    assert shapes(model, ask)["cate_mean"] == (8 * draws, 3)
    assert shapes(model, ask)["ite_mean"] == (2 * draws, 4, 3)
    assert shapes(model, ask, averaged=True)["ite_mean"] == (1, 4, 3)
    assert shapes(model, ask, averaged=True) == REQUESTS[ask.name].own_shapes(sizes(ask.arrays, model))


def test_the_page_has_the_table():
    text = PAGE.read_text(encoding="utf-8")
    assert requests_page.with_requests(text) == text, "run `make architecture`"


# --- a row more

TOY = Request(name="AskDiagnostic.totals", message=Step, phase="checks", summed=True, optional=True, in_full=True,
              most=2, words="totals of columns", slow=True,
              answer=(Array("column_totals", ("covariates",), "sum of each covariate"),),
              own=(Array("treated", (), "how many are treated"),))


def totals(here: diagnosing.Here, arrays) -> Part:
    return Part({"column_totals": here.rows().sum(0)}, {"treated": np.array(here.table.w.sum(), float)})


def design(contract, opened):
    """Of a study with this diagnostic alone."""
    yield Ask(TOY.name, {"centre": opened.centre})


class Doors:
    """Sites behind their doors, each with its ledger."""

    def __init__(self, sites: dict[str, Site], folder: Path):
        self.sites = tuple(sorted(sites))
        self.doors = {name: Door(site, Ledger(folder / name), folder / name) for name, site in sites.items()}

    def exchange(self, requests: dict[str, Message]) -> dict[str, Message]:
        return {name: decode(self.doors[name].answer(encode(request))) for name, request in requests.items()}


@pytest.fixture
def toy(monkeypatch):
    """All that a new diagnostic is to the package: its row, a step of the course, and what computes it at a site."""
    monkeypatch.setitem(REQUESTS, TOY.name, TOY)
    monkeypatch.setitem(diagnosing.KINDS, "totals", totals)
    monkeypatch.setattr(course, "design", design)


def agreed(folder: Path, secure: bool) -> tuple[Talk, dict[str, Site], tuple]:
    """Three sites behind doors that know the common units."""
    plan = study(diagnostics={}, policy={"name": "simulation", "secure_sum": secure})
    sites = {name: Site(plan, Source(name, frame(40 + s, s)).read(plan)) for s, name in enumerate("abc")}
    talk, contract = Talk(Doors(sites, folder), "run"), Contract(plan, ("a", "b", "c"))
    handshake(talk, contract)
    talk, opened = open_course(talk, contract)
    return talk, sites, (contract, opened)


@pytest.mark.usefixtures("toy")
def test_a_new_diagnostic_is_asked_in_the_clear_and_kept_in_the_ledger(tmp_path):
    talk, sites, known = agreed(tmp_path, secure=False)
    talk.follow(course.design(*known))
    for name, own in talk.totals[TOY.name].sites.items():
        assert np.array_equal(own["column_totals"], sites[name].run.table.x.sum(0))
        line = read(tmp_path / name)[-1]
        assert (line["phase"], line["request"], line["sums"]) == ("checks", TOY.name,
                                                                  {"column_totals": [3], OWN + "treated": []})
        assert line["values"][OWN + "treated"] == sites[name].run.table.w.sum()


@pytest.mark.usefixtures("toy")
def test_a_new_diagnostic_is_masked_but_for_what_is_told_of_sites(tmp_path):
    talk, sites, known = agreed(tmp_path, secure=True)
    talk.follow(course.design(*known))
    total = talk.totals[TOY.name]
    assert total.sums.keys() == {"column_totals"}
    expected = sum(site.run.table.x.sum(0) for site in sites.values())
    np.testing.assert_allclose(total.sums["column_totals"], expected, rtol=1e-14)  # fixed point: 1e-22 of a unit
    assert {name: dict(own) for name, own in total.sites.items()} == {
        name: {"treated": site.run.table.w.sum()} for name, site in sites.items()}
    line = next(line for line in read(tmp_path / "a") if line["request"] == TOY.name)
    assert line["sums"].keys() == {MASKED, OWN + "treated"}
    assert line["values"].keys() == {OWN + "treated"}


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("secure", [False, True])
def test_a_new_diagnostic_that_a_site_may_not_tell_is_given_up_and_the_study_goes_on(tmp_path, monkeypatch, secure):
    def told(here, arrays):
        if here.table.site == "b":
            raise DisclosureError("too few")
        return totals(here, arrays)

    talk, sites, known = agreed(tmp_path, secure)
    monkeypatch.setitem(diagnosing.KINDS, "totals", told)
    talk.follow(course.design(*known))
    assert talk.totals[TOY.name] == GIVEN_UP
    assert len(talk.notes) == 1
    assert "the diagnostic 'totals' was given up" in talk.notes[0]
    talk.follow(course.start(*known))
    assert all(site.run.course.place(talk.round).leg == course.START for site in sites.values())


@pytest.mark.usefixtures("toy")
def test_the_door_of_a_new_diagnostic_lets_out_its_arrays_alone(tmp_path):
    request, own = Step(*BASE, TOY.name), {OWN + "treated": np.zeros(())}
    check_leaving(request, Reply(*BASE, {"column_totals": np.zeros(3)} | own))
    check_leaving(request, Reply(*BASE, {MASKED: np.zeros(3)} | own), secure=True)
    for foreign in ({"hessian": np.zeros(3)}, {MASKED: np.zeros(3)}, {"treated": np.zeros(())}):
        with pytest.raises(DisclosureError):
            check_leaving(request, Reply(*BASE, foreign))
    with pytest.raises(DisclosureError):
        check_leaving(request, Reply(*BASE, {"column_totals": np.zeros(3)}), secure=True)


@pytest.mark.usefixtures("toy")
def test_a_new_diagnostic_is_answered_as_often_as_the_course_asks(tmp_path):
    talk, _, known = agreed(tmp_path, secure=False)
    talk.follow(course.design(*known))
    again = Step("run", talk.round + 1, "a", TOY.name, dict(talk.previous))
    refusal = talk.engine.exchange({"a": again})["a"]
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
    line = "| `AskDiagnostic.totals` | checks | column_totals [covariates] | – | yes; of each site treated |"
    assert line in requests_page.requests()
