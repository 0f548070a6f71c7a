"""The course of a study: every step follows from the study and the sums, and a place of it is kept bit for bit."""

import numpy as np
import pytest
from scipy import stats

from fedci.protocol import course, optimise
from fedci.protocol.course import Contract, Place
from fedci.table.moments import Moments
from support.trials import STANDARD, begun, trial
from tests_support import frame, study

ROUNDS = 3
SHORT = {"optimiser": {"rounds": ROUNDS, "draws": 4}, "prediction": {"draws": 4}}
MASKS = {"name": "simulation", "secure_sum": True}
DESIGN = ["AskDiagnostic.propensity", "AskDiagnostic.balance", "AskDiagnostic.overlap"]
OPENING = ["AskColumns", "AskMeans", "AskSpreads", "AskDescription", "Prepare"]
FIT = ["Begin", *["Evaluate"] * ROUNDS, "AskEffects"]


# --- opening


def tables(*sizes):
    return {f"s{k}": frame(rows, k) for k, rows in enumerate(sizes)}


def columns_of(rows):
    return rows[["age", "bmi", "sex"]].to_numpy(float), rows.w.to_numpy(), rows.y.to_numpy()


@pytest.mark.parametrize("policy", [{"name": "simulation"}, MASKS], ids=["plain", "masked"])
def test_units_are_the_pooled_mean_and_sd_of_rows_that_nobody_sees_together(policy):
    frames = tables(40, 37, 39)
    _, _, opened, contract = begun(frames, policy=policy)
    x, w, y = (np.concatenate(parts) for parts in zip(*map(columns_of, frames.values()), strict=True))
    np.testing.assert_allclose(opened.columns.values[:2], [x.mean(0), x.var(0)], rtol=1e-13)
    np.testing.assert_allclose(opened.scales.x_mean, x.mean(0), rtol=1e-13)
    np.testing.assert_allclose(opened.scales.x_sd[:2], x[:, :2].std(0), rtol=1e-13)
    np.testing.assert_allclose([opened.scales.y_mean, opened.scales.y_sd], [y.mean(), y.std()], rtol=1e-13)
    assert (opened.people, opened.treated, opened.share) == (116, w.sum(), w.mean())
    assert contract.sites == ("s0", "s1", "s2")


@pytest.mark.parametrize("scale", [1e-6, 1e8])
def test_a_mean_far_from_zero_and_any_unit_keep_their_digits_under_masks(scale):
    """A spread of 1e-6 of the mean: the squares are about the common centre, so only the mean's rounding remains."""
    frames = {name: rows.assign(bmi=scale * (1e6 + rows.bmi)) for name, rows in tables(40, 37, 39).items()}
    _, _, opened, _ = begun(frames, policy=MASKS)
    bmi = np.concatenate([rows.bmi for rows in frames.values()])
    assert opened.scales.x_mean[1] == pytest.approx(bmi.mean(), rel=1e-14)
    assert opened.scales.x_sd[1] == pytest.approx(bmi.std(), rel=1e-8)


@pytest.mark.parametrize("spread", ["variance", "sd"])
def test_u_holds_the_moments_of_standardised_columns(spread):
    """u = [ỹ(0), ỹ(1), x̃, w̃], a column's mean, spread, skewness and kurtosis together; w is not rescaled."""
    frames = tables(40, 37)
    _, _, opened, _ = begun(frames, options={"model": {"moments_spread": spread}})
    common = opened.scales

    def moments(x, w, y):
        x, y = (x - common.x_mean) / common.x_sd, (y - common.y_mean) / common.y_sd
        return np.ravel([[c.mean(), c.var() if spread == "variance" else c.std(), stats.skew(c), stats.kurtosis(c)]
                         for c in (y[w == 0], y[w == 1], *x.T, w)])

    own = [columns_of(rows) for rows in frames.values()]
    for u, part in zip(opened.u, own, strict=True):
        np.testing.assert_allclose(u, moments(*part), rtol=1e-9, atol=1e-11)
    everyone = moments(*(np.concatenate(parts) for parts in zip(*own, strict=True)))
    np.testing.assert_allclose(opened.pooled_u, everyone, rtol=1e-9, atol=1e-11)


def test_only_a_model_that_compares_sites_is_told_their_moments():
    talk, _, opened, _ = begun(tables(40, 37), preset="default")
    assert "AskDescription" not in talk.totals
    assert not opened.u.any()
    assert opened.u.shape == (2, 4 * (3 + 3))


def test_a_column_that_one_site_withholds_enters_nothing_anywhere():
    rare = {name: trial(150, k) for k, name in enumerate("ab")}
    rare["b"]["sex"] = (np.arange(150) < 4).astype(int)
    talk, sites, opened, _ = begun(rare, policy=STANDARD)
    assert list(opened.withheld) == [False, False, True]
    assert opened.scales.x_sd[2] == course.NO_VALUE
    assert talk.totals["AskMeans"].sums["count"][2] == talk.totals["AskMeans"].sums["total"][2] == 0
    assert talk.totals["AskSpreads"].sums["square"][2] == 0
    assert all(not np.asarray(site.run.prepared.rows.x)[:, 2].any() for site in sites.values())
    assert not opened.u.reshape(2, -1, 4)[:, 4].any()  # after y(0), y(1), age, bmi


@pytest.mark.parametrize(("masked", "withheld"), [(True, [False, False, True]), (False, [False] * 3)])
def test_a_masked_sum_over_one_site_that_varies_alone_is_not_taken(masked, withheld):
    """It would be that site's own number."""
    frames = {name: trial(120, k) for k, name in enumerate("abc")}
    for name in "ab":
        frames[name]["sex"] = 0
    _, _, opened, _ = begun(frames, policy={"name": "simulation", "secure_sum": masked, "min_cell": 5})
    assert list(opened.withheld) == withheld


@pytest.mark.parametrize(("policy", "found"), [({"name": "simulation"}, [1]), (STANDARD, [])])
def test_missing_values_get_a_column_unless_too_few_are_missing_to_say_so(policy, found):
    gaps = trial(150, 0)
    gaps.loc[[3, 7, 20], "bmi"] = np.nan
    _, _, opened, _ = begun({"a": gaps, "b": trial(120, 1)}, policy=policy, missing="impute")
    assert list(opened.indicators) == found
    assert len(opened.centre) == len(opened.spread) == 3 + len(found)


# --- from step to step


@pytest.fixture(scope="module")
def opening():
    """(the contract, the sums of a real opening)."""
    talk, _, _, contract = begun(tables(40, 37), options=SHORT)
    return contract, {name: total.sums for name, total in talk.totals.items()}


def answered(ask, number: int, sums: dict) -> dict:
    """Sums that some sites might give."""
    if ask.name in sums:
        return sums[ask.name]
    if ask.name == DESIGN[0]:
        slopes = ask.arrays["slopes"]
        return {"log_likelihood": np.array(-9.0), "gradient": 0.01 * slopes, "hessian": np.eye(len(slopes)),
                "carried": np.array([9.0, 3.0])}
    if ask.name != "Evaluate":
        return {"told": np.ones(1)}
    rng = np.random.default_rng(number)
    roots = rng.normal(size=ask.arrays["phi_roots"].shape)
    return {"objective": np.array(-100.0 + number), "gradient": rng.normal(size=ask.arrays["theta"].shape),
            "phi_roots": roots, "sigma_roots": roots, "failed": np.array(0.0)}


def walked(opening, last: str = "", given_up: str = "", contract=None):
    """[(place, what is asked there)] up to a step, or to the end."""
    known, sums = opening
    contract = contract or known
    sums = {**sums, "Begin": {}} | ({given_up: {}} if given_up else {})
    steps = [course.now(contract, Place())]
    while steps[-1][1] is not None and steps[-1][1].name != last:
        place, ask = steps[-1]
        steps.append(course.after(contract, place, answered(ask, len(steps), sums)))
    return steps


def names(steps):
    return [ask.name for _, ask in steps if ask is not None]


def same(one, two) -> bool:
    return one.name == two.name and all(
        np.asarray(one.arrays[name]).tobytes() == np.asarray(two.arrays[name]).tobytes()
        for name in one.arrays | two.arrays)


def test_every_step_follows_from_the_sums_and_after_the_checks_there_is_none(opening):
    steps = walked(opening)
    assert names(steps) == [*OPENING, *DESIGN, *FIT, "AskDiagnostic.outcome"]
    legs = list(dict.fromkeys(place.leg for place, _ in steps))
    assert legs == [course.OPENING, course.DESIGN, course.START, course.ROUND, course.CLOSING, course.OVER]
    assert course.now(opening[0], steps[-1][0]) == (Place(course.OVER), None)


def test_two_who_are_told_the_same_ask_for_the_same_bits(opening):
    assert all(same(one, two) for (_, one), (_, two) in zip(walked(opening)[:-1], walked(opening)[:-1], strict=True))


def test_another_sum_another_question(opening):
    """So nobody can choose the question and not the sum."""
    contract, sums = opening
    moved = contract, sums | {"AskSpreads": {name: 1.5 * part for name, part in sums["AskSpreads"].items()}}
    one, two = (walked(told)[3][1].arrays for told in (opening, moved))
    np.testing.assert_allclose(two["y_sd"], np.sqrt(1.5) * one["y_sd"])


def test_the_seed_and_the_options_are_the_studys(opening):
    agreed = opening[0].agreed
    other = Contract(agreed.model_copy(update={"seed": 7}), opening[0].sites)
    one, two = (walked(opening, "Evaluate", contract=contract)[-1][1] for contract in (opening[0], other))
    assert len(one.arrays["phi_roots"]) == len(two.arrays["phi_roots"]) == 4
    assert not same(one, two)


@pytest.mark.parametrize("kind", DESIGN)
def test_a_diagnostic_that_is_given_up_ends_the_design_and_not_the_study(opening, kind):
    steps = walked(opening, given_up=kind)
    before = DESIGN[:DESIGN.index(kind) + 1]
    assert names(steps) == [*OPENING, *before, *FIT, "AskDiagnostic.outcome"]
    assert steps[-2][1].arrays["slopes"].size == 0


@pytest.mark.parametrize("field, change", [("diagnostics", {"enabled": False}), ("policy", {"epsilon": 1.0})],
                         ids=["not wanted", "noised"])
def test_without_diagnostics_the_fit_follows_the_opening(opening, field, change):
    agreed = opening[0].agreed
    contract = Contract(agreed.model_copy(update={field: getattr(agreed, field).model_copy(update=change)}),
                        opening[0].sites)
    assert not contract.diagnoses
    assert names(walked(opening, contract=contract)) == [*OPENING, *FIT]


def test_a_refuters_contract_has_its_own_study_and_no_more_draws_than_it_needs():
    agreed = study(diagnostics={"refute": ["random-cause"]})
    contract = Contract(agreed, ("a", "b"), "random-cause")
    assert len(course.column_names(contract)) == len(course.column_names(Contract(agreed, ("a", "b")))) + 1
    assert contract.options.prediction.draws <= 128 < agreed.fit_options().prediction.draws
    assert not contract.diagnoses


# --- on disk


def of_the_fit(opening):
    steps = walked(opening)[:-1]
    first = names(steps).index("Begin")
    return steps[first][0], steps[first:]


@pytest.mark.parametrize("number", range(len(FIT) + 1))
def test_a_place_on_disk_is_the_place(opening, number):
    begin, steps = of_the_fit(opening)
    place, ask = steps[number]
    packed = {name: np.asarray(part) for name, part in course.pack(place).items()}
    back, again = course.now(opening[0], course.unpack(opening[0], begin, packed))
    assert (back.leg, len(back.sums)) == (place.leg, len(place.sums))
    assert same(ask, again)


def test_a_round_begins_again_from_the_optimisers_state(opening):
    begin, steps = of_the_fit(opening)
    place, ask = steps[2]
    packed = course.resumed(optimise.pack(place.state))
    assert same(ask, course.now(opening[0], course.unpack(opening[0], begin, packed))[1])


def test_what_was_known_before_the_fit_is_not_taken_from_disk(opening):
    _, steps = of_the_fit(opening)
    with pytest.raises(AssertionError, match="walked again"):
        course.unpack(opening[0], Place(), course.pack(steps[1][0]))


def test_columns_that_nobody_varies_in_have_no_spread_of_rounding():
    """A constant of 0.1, summed at three sites, has a variance of its own rounding."""
    told = Moments(course._standing(np.array([0.1, 5.0]), np.array([1e-34, 2.0])), np.array([30, 30]))
    np.testing.assert_array_equal(told.values[1], [0.0, 2.0])
