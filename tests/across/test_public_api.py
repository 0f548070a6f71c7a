"""The names users write: a contract."""

import ast
import inspect
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import fedci
from fedci import StudyError, UsageError
from fedci.errors import tree
from tests_support import fit, frame, hospitals, study

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.ipynb"))]
INTERNAL = {
    "fedci.diagnostics": "where the fields of each diagnostic are explained",
    "fedci.model.shared.shared": "where the priors are listed",
    "fedci.model.parallel": "where the threads are explained",
    "fedci.network.flare.job": "for a network that was set up otherwise: the files of a job",
    "fedci.synthetic.hospitals.hospital": "people of nobody, to learn with",
    "fedci.result.transport.of_people": "what `fedci transport` calls",
    "fedci.benchmark.run.survival": "to measure with",
}
"""What pages name though it may change: only to explain it."""
NO_MODULES = {"fedci.command", "fedci.cdx.json", "fedci.federation"}
"""An option in R, a file of a release, and a module that is gone."""


@pytest.fixture(scope="module")
def names_for_checkers() -> set[str]:
    """What `fedci/__init__.py` imports, for all and for type checkers."""
    module = ast.parse(Path(fedci.__file__).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(module) if isinstance(node, ast.ImportFrom) and node.module.startswith("fedci")]
    return {alias.name for node in found for alias in node.names}


def test_every_public_name_is_there_by_hand_for_checkers_and_in_the_reference(names_for_checkers):
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^::: fedci\.(\w+)$", reference, re.MULTILINE)) - {"errors"}
    errors = {error.__name__ for error in tree()}
    assert sorted(fedci.__all__) == fedci.__all__ == dir(fedci)
    assert set(fedci.__all__) == names_for_checkers
    assert set(fedci.__all__) == documented | errors | {"__version__"}
    for name in documented:
        assert getattr(fedci, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'Sutdy'"):
        fedci.Sutdy  # noqa: B018


def named_on(page: Path) -> set[str]:
    """`fedci.x.y` in words and code, and `from fedci.x import y` as fedci.x.y; not the modules that are commands."""
    text = page.read_text(encoding="utf-8")
    dotted = set(re.findall(r"(?<![\w./-])(?<!-m )fedci(?:\.[A-Za-z_]\w*)+", text)) - NO_MODULES
    imported = re.findall(r"from (fedci[\w.]*) import ([\w, ]+?)(?= as |[^\w, ]|$)", text, re.MULTILINE)
    return {*(name for name in dotted if not re.search(rf"from {name} import", text)),
            *(f"{module}.{name.strip()}" for module, names in imported for name in names.split(","))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_name_what_is_public(page):
    for name in named_on(page) - {"fedci.errors"}:
        assert name.split(".")[1] in fedci.__all__ or name in INTERNAL, f"{page.name}: {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_pages_name_exist(page):
    for module in re.findall(r"python -m (fedci[\w.]*\w)", page.read_text(encoding="utf-8")):
        assert find_spec(module), f"{page.name}: {module}"


def test_types_travel_with_the_package_and_nothing_heavy_is_loaded():
    assert (Path(fedci.__file__).parent / "py.typed").exists()
    code = "import fedci, sys; sys.exit(bool({'jax', 'pandas', 'pydantic', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def result(classic):
    return classic


def test_the_contract_of_the_issue(result):
    new = frame(7, 50)
    ate = result.ate()
    low, high = ate.interval(0.05)
    assert low < ate.mean < high
    assert ate.sd > 0
    assert result.ate_interval(0.05) == (low, high)
    assert result.effect(new, site="site-0").shape == (7,)
    lower, upper = result.effect_interval(new, site="site-0", alpha=0.05)
    assert (lower < result.effect(new, site="site-0")).all()
    assert (result.effect(new, site="site-0") < upper).all()


def test_signatures():
    assert list(inspect.signature(fedci.FedCI).parameters) == ["study", "preset", "seed"]
    assert list(inspect.signature(fedci.Source).parameters)[:2] == ["name", "data"]
    for method in ("ate", "att", "atc", "ate_interval", "effect", "effect_interval", "ite", "summary", "save", "load"):
        assert inspect.getdoc(getattr(fedci.Result, method)) or method == "ate_interval"


def test_averages_are_averages_of_effects(result):
    """The mean ATE of a site is the mean of its people's expected effects, and so for the treated; sums add up."""
    people = [result.ite(name) for name in result.sites]
    treated = [np.asarray(result.people[name].table.w == 1) for name in result.sites]
    for name, effects, chosen in zip(result.sites, people, treated, strict=True):
        np.testing.assert_allclose(result.ate(name).mean, effects.cate.mean(), rtol=1e-9)
        np.testing.assert_allclose(result.att(name).mean, effects.cate[chosen].mean(), rtol=1e-9)
        np.testing.assert_allclose(result.atc(name).mean, effects.cate[~chosen].mean(), rtol=1e-9)
        np.testing.assert_allclose(result.ate(name, of="ite").mean, effects.ite.mean(), rtol=1e-9)
    everyone = np.concatenate([effects.cate for effects in people])
    np.testing.assert_allclose(result.ate().mean, everyone.mean(), rtol=1e-9)


def test_effect_of_the_sites_own_rows_is_its_cate(result):
    own = frame(40, 0)
    np.testing.assert_allclose(result.effect(own, site="site-0"), result.ite("site-0").cate, rtol=1e-9)


def test_arrays_and_frames_are_the_same_people(result):
    new = frame(5, 51)
    as_array = new[["age", "bmi", "sex"]].to_numpy(float)
    np.testing.assert_array_equal(result.effect(new, site="site-1"), result.effect(as_array, site="site-1"))


def test_many_people_are_predicted_in_chunks_alike(result):
    new = frame(1100, 52)
    whole = result.effect(new, site="site-1")
    parts = np.concatenate([result.effect(new[:600], site="site-1"), result.effect(new[600:], site="site-1")])
    np.testing.assert_allclose(whole, parts, rtol=1e-10)


def test_intervals_grow_with_the_level_and_with_outcome_noise(result):
    new = frame(6, 53)
    width = {a: np.subtract(*result.effect_interval(new, site="site-1", alpha=a)[::-1]) for a in (0.5, 0.05, 0.01)}
    assert (width[0.5] < width[0.05]).all()
    assert (width[0.05] < width[0.01]).all()
    noisy = np.subtract(*result.effect_interval(new, site="site-1", outcome_noise=True)[::-1])
    assert (noisy > width[0.05]).all()


def test_a_site_outside_the_study_is_less_certain(result):
    new = frame(30, 54)
    outside, inside = result.effect_posterior(new), result.effect_posterior(new, site="site-0")
    assert np.isfinite(outside.mean).all()
    assert outside.sd.mean() > inside.sd.mean()


def test_realised_effects_use_the_observed_outcome(result):
    """ITE of a treated person is y − E[y(0)]: it moves one to one with the noise of their own outcome."""
    table, effects = result.people["site-0"].table, result.ite("site-0")
    assert np.corrcoef(effects.ite - effects.cate, table.y)[0, 1] != pytest.approx(0, abs=1e-6)
    assert (effects.ite_sd > effects.cate_sd).mean() > 0.9


def test_noise_correlation_is_reported_not_hidden(result):
    """A positive correlation of the two outcomes' noise makes the missing one better known."""
    sensitivity = result.sensitivity()
    assert list(sensitivity.noise_correlation) == ["prior", 0.0, 0.5, 0.9]
    assert sensitivity.person_sd.iloc[3] < sensitivity.person_sd.iloc[1]
    assert result.ite("site-0", noise_correlation=0.9).ite_sd.mean() < result.ite("site-0", 0.0).ite_sd.mean()
    assert "no data inform" in result.summary()


def test_people_with_known_outcomes_are_imputed(result):
    more = frame(9, 55)
    effect = result.impute(more, site="site-0")
    assert effect.mean.shape == (9,)
    np.testing.assert_allclose(effect.sd.mean(), result.ite("site-0").ite_sd.mean(), rtol=0.3)


@pytest.mark.parametrize("ask, words", [
    (lambda r: r.effect(frame(3, 1), site="paris"), "no site 'paris'"),
    (lambda r: r.ate(of="pate"), "unknown"),
    (lambda r: r.ate().interval(1.5), "between 0 and 1"),
    (lambda r: r.effect_interval(frame(3, 1), site="site-0", alpha=0), "between 0 and 1"),
    (lambda r: r.ite("site-0", noise_correlation=1.0), "outside"),
    (lambda r: r.ate(of="ite", noise_correlation=0.3), "0.5"),
])
def test_questions_without_an_answer(result, ask, words):
    with pytest.raises(UsageError, match=words):
        ask(result)


def test_summary_says_the_answer_first(result):
    lines = result.summary().splitlines()
    assert "77 people at 2 sites" in lines[0]
    assert f"{result.ate().mean:.4g}" in lines[1]
    assert result.verdict in lines[2]


def test_a_source_twice_and_no_source():
    with pytest.raises(StudyError, match="twice"):
        fit([*hospitals(20), *hospitals(20)])
    with pytest.raises(UsageError, match="no source"):
        fit([])


def test_categoricals_and_imputation_reach_the_fit():
    levels = {"type": "categorical", "levels": ["I", "II", "III"]}
    plan = study(covariates={"age": {"missing": "impute"}, "stage": levels})
    frames = [frame(36, s).assign(stage=np.array(["I", "II", "III"] * 12)) for s in (0, 1)]
    frames[0].loc[3:6, "age"] = np.nan
    result = fedci.FedCI(plan).fit([fedci.Source("a", frames[0]), fedci.Source("b", frames[1])])
    layout = result.outcome.layout
    assert layout.model.covariates == 4  # age, stage=II, stage=III, and age's indicator at both sites
    assert list(layout.indicators) == [0]
    assert np.isfinite(result.effect(frames[0], site="a")).all()
    assert np.isfinite(result.effect(frames[0], site="b")).all()
