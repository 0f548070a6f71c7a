"""More than two arms: sums over sites = dense over all rows, in the words of contrasts; with two nothing is another."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax.scipy.stats import multivariate_normal

from fedci import FedCI, Result, Source, Study
from fedci.effect import EffectSums, weights_of
from fedci.errors import DataError, SizeError, StudyError, UsageError
from fedci.model import covariance, padding, predict
from fedci.model.families import model_of
from fedci.model.shared import basis, evidence, exchanges, inducing
from fedci.model.shared.evidence import SharedDraws, Statistics
from fedci.model.shared.shared import noise_sd, own_root
from fedci.report.page import write_report
from fedci.result import transport
from fedci.result.comparison import compare
from fedci.result.prediction import predict_file
from fedci.study.options import SharedOptions
from fedci.table import small_cells
from support.mailed import Mailed

D, SITES, ARMS, JITTER = 3, 2, 3, 1e-10
MODEL = model_of(SharedOptions(family="shared", directions=1, knots=3, landmarks=4), D, D, SITES, arms=ARMS)
NAMES = ("none", "low", "high")
TREATMENT = {"name": "w", "arms": list(NAMES)}
TINY = {"model": {"landmarks": 0, "knots": 3, "directions": 1}, "optimiser": {"rounds": 4}, "prediction": {"draws": 32}}
U = np.zeros(4 * (D + 3))


def rows(site: int, n: int = 13):
    rng = np.random.default_rng((site, 7))
    return rng.normal(size=(n, D)), rng.permutation(np.arange(n) % ARMS), rng.normal(size=n)


def thetas(count: int = 2):
    mean, sd = MODEL.prior
    return jnp.asarray(mean + 0.5 * sd * np.random.default_rng(3).standard_normal((count, MODEL.size)))


# --- the law


def test_two_arms_have_no_part_more_and_more_arms_few():
    two = model_of(MODEL.options, D, D, SITES)
    assert "together" not in two.starts
    assert MODEL.size == two.size + 2 + D  # κ, the third arm's noise and γ
    assert set(MODEL.starts) == {*two.starts, "together"}


def test_the_other_arms_have_one_law_whatever_their_order():
    theta = MODEL.unravel(thetas()[0])
    for block in MODEL.layout.blocks:
        cov = np.asarray(block.root(theta) @ block.root(theta).T)
        swapped = cov[np.ix_([0, 2, 1], [0, 2, 1])]
        np.testing.assert_allclose(cov, swapped, rtol=1e-14, err_msg=block.name)
    e = np.asarray(basis.together(theta, 2))
    kappa = 1.0 / (1.0 + np.exp(-float(theta["together"])))
    np.testing.assert_allclose(e @ e.T, [[1.0, kappa], [kappa, 1.0]], rtol=1e-14)


def test_an_arm_beside_the_reference_has_the_law_of_two_arms():
    two, vector = model_of(MODEL.options, D, D, SITES), thetas()[0]
    theta = MODEL.unravel(vector)
    less = {part: value for part, value in theta.items() if part != "together"}
    for one, other in zip(MODEL.layout.blocks, two.layout.blocks, strict=True):
        ours, theirs = np.asarray(one.root(theta)), np.asarray(other.root(less))
        np.testing.assert_allclose((ours @ ours.T)[:2, :2], theirs @ theirs.T, rtol=1e-13, err_msg=one.name)
    np.testing.assert_allclose((own_root(theta, ARMS) @ own_root(theta, ARMS).T)[:2, :2],
                               own_root(less) @ own_root(less).T, rtol=1e-13)


# --- equalities


@pytest.fixture(scope="module")
def total() -> Statistics:
    parts = [evidence.statistics(MODEL, thetas(), padding.pad_site(*rows(s), U, s), JITTER) for s in range(SITES)]
    return jax.tree.map(lambda *leaves: sum(leaves), *parts)


def dense(vector):
    """(outcomes, their covariance)."""
    theta = MODEL.unravel(vector)
    x, w, y = (np.concatenate(part) for part in zip(*(rows(s) for s in range(SITES)), strict=True))
    site = np.repeat(np.arange(SITES), len(x) // SITES)
    phi = np.asarray(own_root(theta, ARMS) @ own_root(theta, ARMS).T)
    k = np.asarray(MODEL.k(theta, jnp.asarray(x))) * (site[:, None] == site[None])
    z = np.asarray(MODEL.layout.arms(theta, jnp.asarray(x)))
    whole = np.einsum("nap,mbp->namb", z, z) + np.einsum("ab,nm->namb", phi, k)
    n = np.arange(len(x))
    observed = whole[n, w][:, n, w] + np.diag(np.asarray(noise_sd(theta, ARMS))[w] ** 2)
    return y, observed


def test_the_sums_give_the_density_of_all_outcomes(total):
    values = evidence.log_evidence(total, float(SITES * 13))[0]
    for vector, value in zip(thetas(), values, strict=True):
        y, observed = dense(vector)
        expected = multivariate_normal.logpdf(jnp.asarray(y), jnp.zeros(len(y)), jnp.asarray(observed))
        np.testing.assert_allclose(value, expected, rtol=1e-9)


@pytest.fixture(scope="module")
def drawn(total) -> SharedDraws:
    law = evidence.collapse(total)
    return SharedDraws(thetas(), jnp.asarray(exchanges.draw_betas(law, 0)))


@pytest.mark.parametrize("large", [False, True])
def test_sums_of_arms_are_those_of_the_joint_law(drawn, large):
    """Over β̃'s draws a site's sums have, with the draws' own spread, the mean of the dense posterior."""
    x, w, y = rows(0)
    site = (inducing.cut(x, w, y, U, 0, MODEL.kernel, len(x), block=8, arms=ARMS) if large else
            padding.pad_site(x, w, y, U, 0))
    found = site.effects(MODEL, np.zeros(0), drawn, np.zeros(1), JITTER)
    mean, cov = np.asarray(found.mean), np.asarray(found.cov)
    for part, vector in enumerate(thetas()):
        theta = MODEL.unravel(vector)
        phi = np.asarray(own_root(theta, ARMS) @ own_root(theta, ARMS).T)
        k = np.asarray(MODEL.k(theta, jnp.asarray(x)))
        z = np.asarray(MODEL.layout.arms(theta, jnp.asarray(x)))
        c = phi[w][:, w] * k + np.diag(np.asarray(noise_sd(theta, ARMS))[w] ** 2)
        t = weights_of(ARMS)[:, w]
        beta = np.asarray(drawn.beta[part, 0])
        q = np.stack([phi[a, w][None] * (t @ k) for a in range(ARMS)])
        solved = np.linalg.solve(c, y - z[np.arange(len(x)), w] @ beta)
        expected = np.einsum("naq,q,en->ae", z, beta, t) + q @ solved
        at = part * drawn.beta.shape[1]
        np.testing.assert_allclose(mean[at], expected, rtol=1e-5, atol=1e-6)  # the large site's root has jitter
        spread = (phi[..., None] * np.einsum("en,nm,em->e", t, k, t)
                  - np.einsum("aen,nm,bem->abe", q, np.linalg.inv(c), q))
        np.testing.assert_allclose(cov[at], spread, rtol=1e-5, atol=1e-6)


def test_effects_of_people_are_those_of_their_sums(drawn):
    x, w, y = rows(0)
    site = padding.pad_site(x, w, y, U, 0)
    mean, _ = predict.outcomes_at(MODEL, np.zeros(0), site, drawn, jnp.asarray(x), JITTER)
    np.testing.assert_allclose(np.asarray(mean).sum(1), site.effects(MODEL, np.zeros(0), drawn, np.zeros(1), JITTER
                                                                    ).mean[..., 0], rtol=1e-9)


def test_other_names_of_the_arms_are_another_order_of_their_columns(total):
    """κ's root is symmetric: swapping the arms swaps β̃'s columns, and the evidence stays what it is."""
    swapped = [0, 2, 1]
    parts = []
    for s in range(SITES):
        x, w, y = rows(s)
        parts.append(evidence.statistics(MODEL, _swapped(thetas()), padding.pad_site(x, np.array(swapped)[w], y, U, s),
                                         JITTER))
    again = jax.tree.map(lambda *leaves: sum(leaves), *parts)
    np.testing.assert_allclose(*(evidence.log_evidence(sums, float(SITES * 13))[0] for sums in (total, again)),
                               rtol=1e-9)


def _swapped(vectors):
    names = MODEL.names()
    order = np.arange(len(names))
    first, second = names.index("noise[1]"), names.index("noise[2]")
    order[[first, second]] = second, first
    return vectors[:, order]


def test_a_contrast_is_a_difference_of_arms():
    rng = np.random.default_rng(1)
    root = rng.normal(size=(ARMS, ARMS))
    part = {"arm_mean": rng.normal(size=(5, ARMS, 4)), "people": np.array([9, 4, 3, 2]),
            "arm_cov": np.repeat((root @ root.T)[None, ..., None], 4, -1)}
    two = EffectSums((part,)).between(1, 2)
    np.testing.assert_array_equal(two.parts[0]["people"], [9, 2, 3])
    expected = (part["arm_mean"][:, 2] - part["arm_mean"][:, 1])[:, 3] / 2
    np.testing.assert_allclose(two.expected("treated").means, expected)
    away = root[2] - root[1]
    np.testing.assert_allclose(two.expected().variances, away @ away / 81)


# --- a study


def people(site: int, n: int = 36) -> pd.DataFrame:
    rng = np.random.default_rng((site, 11))
    x, w = rng.normal(size=(n, 2)), rng.permutation(np.arange(n) % ARMS)
    y = 50.0 + x[:, 0] + np.array([0.0, 0.6, 1.2])[w] * (1.0 + 0.3 * x[:, 1]) + 0.5 * rng.normal(size=n)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "w": np.array(NAMES)[w], "y": y})


def plan(**changes) -> Study:
    return Study(**{"treatment": TREATMENT, "outcome": "y", "covariates": ["a", "b"], "policy": "simulation",
                    "options": TINY} | changes)


SOURCES = [Source(f"s{k}", people(k)) for k in range(3)]


@pytest.fixture(scope="module")
def clear() -> Result:
    return FedCI(plan()).fit(SOURCES)


def test_one_contrast_is_carried_over_to_other_people(clear):
    new = people(9).head(20)
    with pytest.raises(UsageError, match="--arm"):
        transport.of_people(clear, new)
    found = transport.of_people(clear.between("high", "low"), new)
    assert found.effect.mean == pytest.approx(float(np.mean(clear.effect(new, contrast=("high", "low")))), rel=1e-9)
    assert transport.of_moments(clear.between("low"), {}).people > 0


def test_every_contrast_comes_from_one_fit(clear):
    table = clear.contrasts()
    assert list(dict.fromkeys(zip(table.arm, table.against, strict=True))) == [
        ("low", "none"), ("high", "none"), ("high", "low")]
    pairs = ("low", "none"), ("high", "none"), ("high", "low")
    low, high, between = (clear.ate(contrast=pair).mean for pair in pairs)
    np.testing.assert_allclose(high - low, between, rtol=1e-9)
    assert clear.between("none", "high").ate().mean == pytest.approx(-high)
    assert table.equals(clear.table())
    arms = clear.arm_table()
    means = arms[(arms.over == "all") & (arms.site == "all")].set_index("arm")["mean"]
    assert means["high"] - means["none"] == pytest.approx(high)
    assert abs(means["none"] - 50.0) < 2.0
    assert "high compared with none" in clear.summary()


def test_an_effect_without_its_contrast_is_asked_for_in_words(clear):
    with pytest.raises(UsageError, match=r"3 arms.*contrast=\('low', 'none'\)"):
        clear.ate()
    with pytest.raises(UsageError, match="no arm 'middle'"):
        clear.between("middle")
    with pytest.raises(UsageError, match="realised effects are of two arms"):
        clear.ate(of="ite", contrast=("low", "none"))


def test_under_masks_the_contrasts_are_those_in_the_clear(clear):
    masked = FedCI(plan(policy={"name": "simulation", "secure_sum": "auto"})).fit(SOURCES)
    assert set(masked.outcome.effects.sums["s0"]) == {"arm_mean", "arm_cov", "people"}
    for pair in (("low", "none"), ("high", "low")):
        one, other = clear.ate(contrast=pair), masked.ate(contrast=pair)
        np.testing.assert_allclose([other.mean, other.sd], [one.mean, one.sd], rtol=1e-5)  # of the sums' range


KINDS = {"binary": {"name": "died", "type": "binary"},
         "survival": {"time": "days", "event": "died", "type": "survival", "horizons": [2.0, 6.0]},
         "count": {"name": "falls", "type": "count", "exposure": "years"}}


def of_kinds(site: int, n: int = 48) -> pd.DataFrame:
    """Events, times and counts: 'low' has fewer than 'none', 'high' fewer than 'low'."""
    rng, rows = np.random.default_rng((site, 23)), people(site, n)
    less = rows.w.map({"none": 0.0, "low": 0.7, "high": 1.4}).to_numpy()
    event, end, years = rng.exponential(4.0 * np.exp(less)), rng.uniform(1.0, 12.0, n), rng.uniform(0.5, 2.0, n)
    return rows.assign(days=np.minimum(event, end), died=(event <= end).astype(int), years=years,
                       falls=rng.poisson(years * np.exp(1.0 - less)))


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_type_of_outcome_has_its_contrasts(kind, tmp_path):
    """One fit of three arms; what is asked of a pair is of the type: risks, curves or rates."""
    result = FedCI(plan(outcome=KINDS[kind])).fit([Source(f"s{k}", of_kinds(k)) for k in range(3)])
    low, high, between = (result.ate(contrast=pair).mean for pair in (("low", "none"), ("high", "none"),
                                                                      ("high", "low")))
    np.testing.assert_allclose(high - low, between, rtol=1e-9)
    assert high < 0
    pair = result.between("high", "none")
    both = pair.rates() if kind == "count" else pair.risks()
    assert both.difference.mean == pytest.approx(high, rel=1e-9)
    assert both.ratio.quantile(0.5) < 1.0
    if kind == "survival":
        assert pair.survival().rmst(6.0).difference.mean > 0
    arms = result.arm_table()
    means = arms[(arms.over == "all") & (arms.site == "all")].set_index("arm")["mean"]
    assert means["high"] - means["none"] == pytest.approx(high, rel=1e-6)
    assert "high compared with none" in result.summary()
    result.save(tmp_path / "result")
    back = Result.load(tmp_path / "result")
    assert back.contrasts().equals(result.contrasts())
    assert compare(result, back).same_question
    page = write_report(tmp_path / "result").read_text(encoding="utf-8")
    assert "high compared with none" in page
    new = of_kinds(5).head(4)
    predict_file(back, new, tmp_path / "effects.csv", site="s0")
    found = pd.read_csv(tmp_path / "effects.csv")
    np.testing.assert_allclose(found["effect high"], result.effect(new, "s0", contrast=("high", "none")), rtol=1e-7)
    assert transport.of_people(pair, new).effect.mean < 0


def test_a_study_of_more_arms_by_files_gives_the_same_bits(tmp_path):
    """Sites that start anew for every letter, under masks, and the same study in this process."""
    agreed = plan(sites=("s0", "s1", "s2"), policy={"name": "simulation", "secure_sum": "auto"},
                  options=TINY | {"optimiser": {"rounds": 2}})
    mailed = Mailed(tmp_path, agreed, {f"s{k}": people(k) for k in range(3)})
    mailed.go()
    found, here = mailed.found(), FedCI(agreed).fit(SOURCES)
    assert found.outcome.fit.theta.tobytes() == here.outcome.fit.theta.tobytes()
    assert found.contrasts().equals(here.contrasts())


def test_interrupted_it_goes_on_to_the_same_bits(clear, tmp_path):
    def stop(at):
        if at.number == 3:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        FedCI(plan()).fit(SOURCES, progress=stop, checkpoint=path)
    again = FedCI(plan()).fit(SOURCES, checkpoint=path)
    assert again.outcome.fit.theta.tobytes() == clear.outcome.fit.theta.tobytes()


def test_saved_and_loaded_it_says_the_same(clear, tmp_path):
    clear.save(tmp_path / "result")
    back = Result.load(tmp_path / "result")
    assert back.contrasts().equals(clear.contrasts())
    assert back.plain()["arms"] == list(NAMES)
    new = people(5).head(4)
    one, other = (result.effect(new, site="s1", contrast=("high", "none")) for result in (clear, back))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    assert "cate high" in clear.ite("s1").columns


def test_a_report_predictions_and_a_comparison_have_every_contrast(clear, tmp_path):
    clear.save(tmp_path / "result")
    page = write_report(tmp_path / "result").read_text(encoding="utf-8")
    for words in ("high compared with none", "high vs low", "if everybody got the arm", "who got high"):
        assert words in page
    new = people(5).head(5).drop(columns="y")
    predict_file(clear, new, tmp_path / "effects.csv", site="s0")
    found = pd.read_csv(tmp_path / "effects.csv")
    assert list(found.columns) == ["row", *(f"{name} {arm}" for arm in ("low", "high")
                                            for name in ("effect", "sd", "low", "high"))]
    np.testing.assert_allclose(found["effect high"], clear.effect(new, "s0", contrast=("high", "none")), rtol=1e-8)
    both = compare(clear, clear)
    assert [pair.estimand for pair in both.pairs if pair.site == "all"][:3] == [
        f"{estimand} of high vs low" for estimand in ("ATE", "ATT", "ATC")]
    assert {pair.difference for pair in both.pairs} == {0.0}


# --- what is asked for in words


def test_two_arms_by_name_are_the_study_of_a_treated_and_an_untreated_word():
    by_arms = plan(treatment={"name": "w", "arms": ["none", "low"]})
    by_words = plan(treatment={"name": "w", "untreated": "none", "treated": "low"})
    assert by_arms == by_words
    assert by_arms.hash() == by_words.hash()


def test_a_study_of_more_arms_is_written_and_read():
    study = plan()
    assert Study.from_toml(study.to_toml()) == study
    assert study.hash() != plan(treatment={"name": "w", "arms": ["low", "none", "high"]}).hash()
    assert "arms" not in plan(treatment="w").to_toml()


@pytest.mark.parametrize(("changes", "words"), [
    ({"treatment": {"name": "w", "arms": ["a", "b", "a"]}}, "same arm twice"),
    ({"treatment": {"name": "w", "arms": ["a"]}}, "three or more"),
    ({"preset": "classic", "options": {}}, "Choose the preset 'default'"),
    ({"preset": "few", "options": {}}, "Choose the preset 'default'"),
    ({"treatment": TREATMENT | {"treated": "low"}}, "treated and untreated are of two arms"),
    ({"diagnostics": {"refute": True}}, "refuters and negative controls"),
    ({"design": "randomised"}, "design is of two arms"),
    ({"subgroups": {"old": {"by": "a", "cuts": [0.0]}}}, "subgroups is of two arms"),
])
def test_what_two_arms_alone_have_is_refused_in_words(changes, words):
    with pytest.raises(StudyError, match=words):
        plan(**changes).fit_options()


def test_an_arm_that_nobody_got_and_one_that_is_not_named():
    frame = people(0)
    with pytest.raises(DataError, match=r"nobody got 'high'"):
        Source("s0", frame[frame.w != "high"]).read(plan())
    with pytest.raises(DataError, match=r"an arm that the study does not have in 12 rows.*none, low, high"):
        Source("s0", frame.replace("high", "higher")).read(plan())
    few = pd.concat([frame[frame.w != "high"], frame[frame.w == "high"].head(2)])
    strict = plan(policy={"name": "custom", "min_rows": 10, "min_arm_rows": 5,
                          "override_reason": "people of nobody"})
    with pytest.raises(SizeError, match=r"2 rows of the arm 'high', the policy needs"):
        Source("s0", few).read(strict)
    table = Source("s0", frame).read(plan())
    assert (table.by_arm, table.treated) == ((12, 12, 12), 24)


def test_small_cells_are_of_every_arm():
    w = np.repeat([0, 1, 2], 10)
    x = np.tile([0.0, 1.0], 15)
    assert not small_cells.withheld(x[:, None], w, 5)[0]
    x[w == 2] = np.repeat([0.0, 1.0], [8, 2])
    assert small_cells.withheld(x[:, None], w, 5)[0]
    assert not small_cells.withheld(x[w < 2][:, None], w[w < 2], 5)[0]


def test_each_row_picks_its_arm():
    w = jnp.array([2, 0, 1])
    np.testing.assert_array_equal(covariance.arms(w, ARMS), np.eye(ARMS)[[2, 0, 1]])
    np.testing.assert_array_equal(covariance.arms(w[1:]), np.eye(2)[[0, 1]])
