"""Each protection taken out, one by one, in a copy of the tree: does a test fail without it?

    python assurance/mutations.py [--only WORD]

A record names a protection in words, the file, the text that is it, what stands there once it is taken out, and one
quick test that must fail then. First all these tests run in an untouched copy, where each must pass: a test that fails
anyway notices nothing. Then one copy for each protection, one after the other. Prints a line for each on stderr, and
last a line of JSON: {"tries", "recovered", "note"}; recovered are the protections that no test misses.

That each text stands where the record says, once, is held by tests/across/test_mutations.py: who moves a protection
moves its record.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 180.0
"""That a test may take without the protection: one that waits for ever has not noticed."""
FAILED = 1
"""Status of pytest where tests ran, and some failed; any other is no answer."""

NOT_PASSED = "its test does not pass with it, or is not run here"


class Protection(NamedTuple):
    """A protection, and how it is taken out."""

    what: str
    file: str
    """Below src/fedci."""
    old: str
    new: str
    test: str
    """Below tests: FILE::NAME, without what stands in brackets."""


PROTECTIONS = (
    # --- the course of a study
    Protection("a site answers the step that it foresees, and no other", "site/following.py",
               "if ask is None or ask.name != request.name:", "if ask is None:",
               "site/test_following.py::test_another_step_is_refused_with_the_round_and_what_was_expected"),
    Protection("the study's hash, and with it seed, options and preset, is the one all agreed on", "site/opening.py",
               "        if ours != theirs:", '        if ours != theirs and what != "study":',
               "site/test_opening.py::test_the_study_alone_says_what_binds_the_parties"),
    Protection("the seed is bound by the study's hash", "study/contract.py",
               'study.model_dump(exclude={"preset", "options"})',
               'study.model_dump(exclude={"preset", "options", "seed"})',
               "site/test_opening.py::test_the_study_alone_says_what_binds_the_parties"),
    Protection("options are bound by the study's hash", "study/contract.py",
               'agreed["fit"] = study.fit_options().model_dump()', 'agreed["fit"] = {"model": {}}',
               "site/test_opening.py::test_the_study_alone_says_what_binds_the_parties"),
    Protection("the cohort is the study's sites, and no part of them", "site/opening.py",
               "if party.name not in cohort or len(cohort) < least or (named and not named.issuperset(cohort)):",
               "if party.name not in cohort:",
               "site/test_opening.py::test_the_cohort_is_the_studys_and_no_part_of_it"),
    Protection("a run keeps the cohort it was begun with", "site/opening.py",
               "if name == run.name and run.course is not None and run.course.places:", "if False:",
               "site/test_opening.py::test_another_run_begins_without_what_was_agreed_before_and_none_changes_its_"
               "cohort"),
    Protection("a study begins no more often than it says", "site/door.py",
               "elif len(studies) >= most:", "elif False:",
               "across/attacks/test_foreseen.py::test_a_study_begins_no_more_often_than_it_says"),
    Protection("a refuter that the study does not ask for is not run", "site/opening.py",
               "    refuting.check_wanted(party.agreed, party.name, request.refuter)\n", "",
               "site/test_opening.py::test_a_refuter_that_the_study_does_not_ask_for_is_refused"),
    Protection("linkage comes before the first sums", "site/opening.py",
               "if not run.study.links or run.described:", "if False:",
               "site/test_opening.py::test_linkage_comes_before_the_first_sums_in_a_study_with_ids"),
    Protection("a table has as many people as the policy asks for", "table/roles.py",
               "    if rows < policy.min_rows:", "    if False:",
               "site/test_run.py::test_rows_after_linkage_hold_to_the_policys_sizes"),

    # --- how much is told
    Protection("columns for each person, under masks too", "site/admission.py",
               "    if model.columns > policy.statistics_per_row * people:", "    if False:",
               "site/test_admission.py::test_the_limit_of_columns_per_person_holds_under_masks"),
    Protection("parameters for each person", "site/admission.py",
               "    if model.size > policy.max_parameters_per_row * people:", "    if False:",
               "site/test_limits.py::test_more_parameters_than_rows_need_consent"),
    Protection("numbers told for each person", "site/admission.py",
               "    if told > most * people:", "    if False:",
               "site/test_admission.py::test_under_standard_few_people_are_not_told_of_in_many_sums"),
    Protection("no fit of exact sums under standard, whatever the size", "study/policy.py",
               '= 0.0\n    """Numbers told', '= 1e9\n    """Numbers told',
               "site/test_admission.py::test_under_standard_no_fit_of_exact_sums_may_be_told_whatever_the_size"),
    Protection("what the fit would be refused for is refused before anything is told", "site/summing.py",
               "    if ask.name == FIRST:\n        _foresee(run)\n", "",
               "site/test_admission.py::test_what_would_be_refused_before_the_fit_is_refused_before_anything_is_told"),
    Protection("rounds that a study may have", "site/limits.py", "    if rounds > most:", "    if False:",
               "site/test_limits.py::test_a_study_has_no_more_rounds_than_its_policy_allows"),
    Protection("draws of realised effects that are told", "effect.py", "some = ite.means[::REALISED]",
               "some = ite.means", "test_effect.py::test_sums_have_the_shapes_they_are_checked_by"),
    Protection("a site's own effects are averages over the draws", "site/summing.py",
               '        own |= {f"{kind}_mean": means.mean(0)[None],', '        own |= {f"{kind}_mean": means,',
               "coordinator/test_masked_sums.py::test_effects_of_a_site_are_averages_over_the_draws"),
    Protection("a site's own effects stay where the study says so", "site/summing.py",
               "    if not run.study.policy.site_effects or run.contract.noises_sums:", "    if False:",
               "coordinator/test_masked_sums.py::test_what_a_site_keeps_of_its_own"),
    Protection("moments are rounded to the policy's digits", "site/describing.py",
               "slots[place] = round_digits(values, digits)", "slots[place] = values",
               "site/test_describing.py::test_a_sites_moments_stand_in_its_own_place_in_model_units_and_to_the_policys_"
               "digits"),

    # --- two sites, masks, shares
    Protection("no sum of fewer than three sites is seen under standard", "site/admission.py",
               "_floors, _sizes, _masks, _rounds,", "_floors, _sizes, _rounds,",
               "site/test_admission.py::test_under_standard_no_sum_of_fewer_than_three_sites_is_seen"),
    Protection("masks are of three different sites or more", "site/masking.py",
               "if len(publics) < SECURE_SUM_SITES or len(set(publics.values())) < len(publics):", "if False:",
               "site/test_masking.py::test_a_cohort_of_two_or_of_one_site_twice_is_refused"),
    Protection("a site is not talked out of its masks", "site/summing.py",
               "if run.study.policy.secures(len(run.contract.sites)) and not run.masked:", "if False:",
               "site/test_summing.py::test_a_site_whose_policy_asks_for_masks_sums_nothing_without_keys"),
    Protection("the keys are of the run's cohort", "site/masking.py",
               "if tuple(sorted(publics)) != self.agreed_cohort:", "if False:",
               "across/attacks/test_lying_coordinator.py::test_another_cohort_at_the_handshake_than_at_the_keys_is_"
               "refused"),
    Protection("keys bear their site's signature", "privacy/agreement.py",
               "        credentials.peers[site].verify(_raw(signature), context.info(purpose, site, public))\n",
               "        pass\n",
               "coordinator/test_masked_sums.py::test_a_coordinator_in_the_middle_is_refused"),
    Protection("a sum is over all sites or is not opened", "site/masking.py",
               "if set(request.shares) != set(self.cohort):", "if False:",
               "site/test_masking.py::test_a_sum_opens_for_all_sites_right_after_it_or_not_at_all"),
    Protection("shares open only for the request that a site answered itself", "site/masking.py",
               'return info("sum", number, asked)', 'return info("sum", number)',
               "across/attacks/test_lying_coordinator.py::test_a_site_that_was_asked_otherwise_keeps_the_sum_closed"),
    Protection("two thirds of the sites open a sum", "privacy/secure_sum.py",
               "return 2 * sites // 3 + 1", "return 2",
               "privacy/test_secure_sum.py::test_the_threshold"),
    Protection("an upload stays closed without its site's seed, however late it comes", "privacy/secure_sum.py",
               "hidden = numbers.view(np.uint64) + stream(self_seed, count)",
               "hidden = numbers.view(np.uint64) + np.uint64(0)",
               "privacy/test_secure_sum.py::test_a_late_upload_stays_closed"),
    Protection("masks between two sites", "privacy/secure_sum.py",
               "hidden = hidden + mask if own < peer else hidden - mask", "pass",
               "privacy/test_secure_sum.py::test_an_upload_is_uniform"),
    Protection("the sum that the coordinator tells is the one that the sites sent", "site/masking.py",
               "if not fits or not secure_sum.is_true_sum(", "if not fits or False and not secure_sum.is_true_sum(",
               "across/attacks/test_lying_coordinator.py::test_a_sum_that_is_none_is_refused_from_the_first_one_on"),
    Protection("effects are of the people that a site told of at the start", "coordinator/coordinator.py",
               'if "people" in part and not np.array_equal(part["people"], asked[site]):', "if False:",
               "coordinator/test_masked_sums.py::test_a_site_whose_effects_are_of_nobody_is_named_beside_a_masked_sum"),
    Protection("effects under a mask are of as many people as all sites told of", "coordinator/coordinator.py",
               'if "people" in total.sums and np.abs(total.sums["people"] - sum(asked.values())).max() >= 0.5:',
               "if False:",
               "coordinator/test_masked_sums.py::test_effects_of_other_people_under_a_mask_are_refused_without_a_name"),
    Protection("a masked number that no honest sites have ends the study", "coordinator/masked_sums.py",
               "        if value.size and not np.abs(value).max() < most:", "        if False:",
               "coordinator/test_masked_sums.py::test_garbage_under_a_mask_shows_as_an_absurd_sum"),

    # --- the store of what was told
    Protection("cohorts that differ by few are refused, by linear algebra over all that was told", "site/cohort.py",
               '        _check_leverage(site, people, 1, policy.min_difference, "min_difference")\n', "",
               "site/test_accountant.py::test_fifteen_of_one_arm_are_enough_for_the_arm_and_too_few_for_the_cohort"),
    Protection("arms that differ by few are refused", "site/cohort.py",
               '        _check_leverage(site, arms, new, policy.min_cell, "min_cell")\n', "",
               "site/test_accountant.py::test_an_arm_counts_as_much_as_the_whole"),
    Protection("cohorts that cannot be compared are refused", "site/accountant.py",
               "        self._check_comparable(release.site, cohort, frozenset().union(*cohorts_by_column))\n", "",
               "site/test_accountant.py::test_without_ids_a_study_of_other_columns_cannot_be_compared_and_is_refused_"
               "unless_the_operator_says_why"),
    Protection("different cohorts of one outcome are bounded", "site/accountant.py",
               "if len(different) >= most and cohort.whom not in different:", "if False:",
               "site/test_accountant.py::test_the_number_of_different_cohorts_is_bounded_for_each_outcome"),
    Protection("numbers for each person add up over studies", "site/accountant.py",
               "if release.per_person and before and before + release.per_person > most:", "if False:",
               "site/test_accountant.py::test_under_standard_one_study_is_told_of_some_people_and_no_other"),
    Protection("a refuter follows a run of its study, whose count has its numbers", "site/run.py",
               "if run.refuter and refuting.study_run(run.name, run.refuter) not in party.accountant.runs:",
               "if False:",
               "site/test_accountant.py::test_a_refuter_without_its_study_is_refused"),
    Protection("an outcome that noise hides is no covariate of another study", "site/accountant.py",
               "        if hidden and policy.outcome_noise:", "        if False:",
               "site/test_accountant.py::test_an_outcome_is_no_covariate_of_a_later_study"),
    Protection("events are counted by one division of time", "site/accountant.py",
               'if not self._asked_alike(f"times {outcome}", times):', "if False:",
               "site/test_accountant.py::test_events_are_counted_by_one_division_of_time_for_ever"),
    Protection("sums with noise are told in one set of units", "site/accountant.py",
               "        if not self._asked_alike(about, question):", "        if False:",
               "site/test_noising.py::test_noise_is_drawn_for_one_question_and_another_is_refused"),
    Protection("tokens of one patient more do not leave", "site/site.py",
               "            linkage_admitted(self.party, run)\n", "            pass\n",
               "site/test_accountant.py::test_tokens_of_one_patient_more_are_refused_before_they_leave"),
    Protection("nothing is told of rows before the accountant has let them be told of", "site/site.py",
               "return run if row_of(request).phase in BEFORE else admitted(self.party, run)", "return run",
               "site/test_accountant.py::test_the_first_step_that_tells_of_rows_is_refused_and_none_comes_before_it"),
    Protection("a site that has answered tells nothing without its store", "site/accountant.py",
               "        if answers:\n            raise store.missing(folder)\n", "",
               "site/test_accountant.py::test_without_its_store_a_site_that_has_answered_tells_nothing"),
    Protection("another store, or an older one, is not taken", "site/accountant.py",
               "    if lost:\n", "    if False:\n",
               "site/test_accountant.py::test_another_store_and_one_from_before_the_last_run_are_not_taken"),
    Protection("a changed byte of the store is found", "site/store.py",
               'if data[HASH:HASH + 1] != b" " or written != _hash(previous, body).encode():',
               'if data[HASH:HASH + 1] != b" ":',
               "site/test_store.py::test_every_flipped_byte_is_found"),
    Protection("a store that was cut is found", "site/store.py",
               "    if head.lines > len(lines):", "    if False:",
               "site/test_store.py::test_every_cut_is_found"),

    # --- small cells
    Protection("columns that tell of few are withheld", "site/describing.py",
               'flags = {"withheld": small_cells.withheld(t.x, t.w, least),',
               'flags = {"withheld": np.zeros(t.x.shape[1], bool),',
               "site/test_describing.py::test_a_column_in_which_few_of_an_arm_stand_apart_is_withheld_and_said_so_"
               "beforehand"),
    Protection("small cells are of each arm, by what a column holds", "table/small_cells.py",
               "    if held.rarer is not None and _is_small(held.rarer, column, w, least, True):", "    if False:",
               "table/test_small_cells.py::test_a_column_of_two_values_is_withheld_exactly_where_a_cell_of_an_arm_is_small"),
    Protection("few who are without the one value that all others hold", "table/small_cells.py",
               "return any(0 < np.sum(apart & (w == arm)) < least for arm in _arms(w))", "return False",
               "table/test_small_cells.py::test_a_column_that_one_value_fills_is_withheld_where_few_of_an_arm_have_"
               "another"),
    Protection("few of whom a value is known", "table/small_cells.py",
               "_is_told_apart(column, w, least) or _is_hardly_known(column, w, least) for",
               "_is_told_apart(column, w, least) for",
               "table/test_small_cells.py::test_a_value_that_few_of_an_arm_are_known_to_have_is_withheld"),
    Protection("rare values are counted with the next", "table/small_cells.py",
               "        new = _merged(x[:, c], table.w, least)\n", "        new = x[:, c]\n",
               "table/test_small_cells.py::test_a_rare_top_of_a_score_is_counted_with_the_next"),
    Protection("combinations of columns that tell few apart", "table/small_cells.py",
               "    return away | strays.beside(x, w, least, away)", "    return away",
               "across/attacks/test_foreseen.py::test_a_combination_of_columns_that_tells_of_one_person_enters_no_sum"),
    Protection("a two-valued outcome of few is not summed", "site/describing.py",
               "    if small_cells.is_small_outcome(true_outcomes(party, run), t.w, least):", "    if False:",
               "site/test_describing.py::test_an_outcome_of_two_values_with_a_small_cell_is_refused"),
    Protection("a small outcome is looked for in the true one, not in that with noise", "site/describing.py",
               "small_cells.is_small_outcome(true_outcomes(party, run), t.w, least)",
               "small_cells.is_small_outcome(t.y, t.w, least)",
               "site/test_describing.py::test_a_small_outcome_is_looked_for_before_noise_flips_it"),
    Protection("of a withheld column nothing is summed", "site/describing.py",
               '"total": np.where(stays, x_total, 0.0),', '"total": x_total,',
               "site/test_describing.py::test_of_a_withheld_column_nothing_is_summed"),
    Protection("a column withheld at one site is withheld everywhere", "protocol/course.py",
               'return np.asarray((counts["withheld"] > 0) | alone)', 'return np.asarray(alone)',
               "protocol/test_course.py::test_a_column_that_one_site_withholds_enters_nothing_anywhere"),
    Protection("a column that varies at one site alone is in no masked sum", "protocol/course.py",
               'return np.asarray((counts["withheld"] > 0) | alone)', 'return np.asarray(counts["withheld"] > 0)',
               "protocol/test_course.py::test_a_masked_sum_over_one_site_that_varies_alone_is_not_taken"),
    Protection("few gaps are the mean, in all copies", "site/copies.py",
               "v[:, :d] = np.where(few & np.isnan(v[:, :d]), 0.0, v[:, :d])", "pass",
               "site/test_copies.py::test_what_few_of_an_arm_lack_is_the_mean"),
    Protection("the words of a handshake tell of nobody", "site/opening.py",
               'told = "" if least else table.dropped.in_words()', "told = table.dropped.in_words()",
               "site/test_opening.py::test_the_words_of_a_handshake_hold_no_count_of_rows_that_are_left_out"),
    Protection("small counts of a diagnostic are hidden, and what would give them away", "diagnostics/counts.py",
               "    while 0 < counts[hidden].sum() < least and ((counts > 0) & ~hidden).any():", "    while False:",
               "diagnostics/test_counts.py::test_no_small_count_is_shown_nor_left_over"),
    Protection("weights that few people carry are withheld", "site/diagnosing.py",
               "carries = np.array([True, *(carried[1:].min(1) >= here.policy.min_cell)])",
               "carries = np.ones(len(carried), bool)",
               "site/test_diagnosing.py::test_weights_that_few_people_carry_are_withheld"),
    Protection("an effect of its own that rests on few is not told", "site/diagnosing.py",
               "propensities.effective(weights[w == arm]) >= here.policy.min_cell for arm", "True for arm",
               "site/test_diagnosing.py::test_an_own_effect_that_rests_on_one_person_is_not_told"),

    # --- subgroups and rules
    Protection("a subgroup is of many, of both arms", "site/grouping.py",
               "return len(cohort.arm) >= policy.min_difference and not np.any((arms > 0) & (arms < policy.min_cell))",
               "return True",
               "site/test_grouping.py::test_arms_are_of_many_or_of_nobody"),
    Protection("a subgroup leaves nobody, or many, of whom a column counts", "site/grouping.py",
               "_is_large(cohort, policy) and _leaves_many(group, groups[:k][told[:k]], cells, w, policy)",
               "_is_large(cohort, policy)",
               "site/test_grouping.py::test_a_group_that_is_all_but_few_of_whom_a_column_counts_is_not_told"),
    Protection("subgroups that differ by few are not both told", "site/grouping.py",
               "            check_span(party.name, cohort, known, policy)\n", "            pass\n",
               "site/test_grouping.py::test_two_groups_that_differ_by_few_are_not_both_told"),
    Protection("a subgroup is held against all that earlier studies told", "site/grouping.py",
               "            party.accountant.admit(about, policy)\n", "            pass\n",
               "site/test_grouping.py::test_what_earlier_studies_told_counts"),
    Protection("a curve of a rule has all its points or none", "site/targeting.py",
               "    of_above = _all_or_none(of_above)\n", "",
               "site/test_targeting.py::test_of_a_curve_with_a_point_that_tells_of_few_nothing_is_told"),

    # --- noise and clips
    Protection("noise on outcomes", "site/outcome_noise.py",
               "return y + ndtri(uniform) @ np.sqrt(np.diff(v)), float(v[-1])", "return y, float(v[-1])",
               "site/test_outcome_noise.py::test_noise_is_gaussian_of_the_said_size_and_the_same_every_time"),
    Protection("noise on outcomes is drawn once for each person, by the store's secret", "site/site.py",
               'accountant.secret("outcome noise"), accountant.scale', "secret, accountant.scale",
               "site/test_outcome_noise.py::test_a_new_kit_draws_no_other_noise"),
    Protection("noise on outcomes of two values", "site/outcome_noise.py",
               "flips = uniform < 0.5 * (1.0 - contrast[1:] / contrast[:-1])[None]", "flips = uniform < 0.0",
               "site/test_outcome_noise.py::test_two_values_are_flipped_as_often_as_is_said"),
    Protection("noise is measured by no spread that is too small", "site/accountant.py",
               "            if sd > MOST_GROWTH * self._scales[column]:", "            if False:",
               "site/test_accountant.py::test_noise_measured_on_people_who_are_alike_does_not_do_for_all"),
    Protection("noise on sums of columns", "site/describing.py",
               "    if noise := noise_on_sums(party, run):\n        totals = ", "    if False:\n        totals = ",
               "site/test_noising.py::test_what_leaves_has_the_noise_that_was_promised"),
    Protection("noise on squares of columns", "site/noising.py",
               'return totals + self._unit("squares") * 2.0 * FARTHEST * sd**2 * draw(totals.size)', "return totals",
               "site/test_noising.py::test_what_leaves_has_the_noise_that_was_promised"),
    Protection("noise on products", "site/summing.py",
               "return part._replace(sums=run.prepared.model.noised_products(ask.arrays, part.sums, draw))",
               "return part",
               "site/test_noising.py::test_what_leaves_has_the_noise_that_was_promised"),
    Protection("noise on sums of effects", "site/summing.py",
               "x, t.w, y, draw)", "x, t.w, y, np.zeros)",
               "site/test_noising.py::test_what_leaves_has_the_noise_that_was_promised"),
    Protection("the clip of squares", "site/noising.py",
               "np.sum(np.clip(np.nan_to_num(x - centre), -cut, cut) ** 2, 0)",
               "np.sum(np.nan_to_num(x - centre) ** 2, 0)",
               "site/test_noising.py::test_what_leaves_has_the_noise_that_was_promised"),
    Protection("the clip of rows", "site/summing.py",
               "np.column_stack([x, y]), model.clipped(x, y)", "np.column_stack([x, y]), (x, y)",
               "site/test_noising.py::test_one_far_off_counts_as_one_at_the_clips"),
    Protection("the clip of sums of effects", "site/summing.py",
               "x, y = ready.model.clipped(ready.units.filled(t.x), ready.units.outcome(t.y))",
               "x, y = ready.units.filled(t.x), ready.units.outcome(t.y)",
               "site/test_noising.py::test_one_far_off_counts_as_one_at_the_clips"),
    Protection("with one site's noise taken away enough of it is left", "model/shared/sum_noise.py",
               "return float(1.0 / np.sqrt(max(1, sites - 1))) if masked else 1.0",
               "return float(1.0 / np.sqrt(sites)) if masked else 1.0",
               "model/shared/test_sum_noise.py::test_without_one_site_the_noise_is_what_is_owed"),
    Protection("people of an arm that the noise is measured for", "site/admission.py",
               "if min(asked.treated, asked.rows - asked.treated) < (least := asked.model.arm_needed):",
               "if (least := asked.model.arm_needed) < 0:",
               "site/test_noising.py::test_a_site_with_an_arm_smaller_than_noise_is_measured_for_tells_of_nobody"),
    Protection("no site's false squares shrink the noise", "site/summing.py",
               "        _check_units(site, whole, np.column_stack([x, y]), opened.people)\n", "",
               "model/shared/test_noised_family.py::test_a_site_that_spreads_wider_than_the_common_units_is_refused"),
    Protection("nobody is farther off than the noise is measured for", "site/summing.py",
               "        _check_near(site, x, w, y)\n", "",
               "model/shared/test_noised_family.py::test_a_site_far_from_the_others_is_refused"),
    Protection("with noise on sums a column is read once", "study/origin.py",
               "    if twice:\n", "    if False:\n",
               "study/test_origin.py::test_with_noise_on_sums_a_column_is_read_once"),
    Protection("noised gradients are clipped", "privacy/dp.py",
               "return noised(clipped(vector, norm), 2.0 * norm, multiplier, seed)",
               "return noised(vector, 2.0 * norm, multiplier, seed)",
               "privacy/test_dp.py::test_a_gradient_leaves_clipped_and_with_noise"),
    Protection("noise on moments", "privacy/dp.py",
               "noisy = noised(sums, moments_sensitivity(x.shape[1]), multiplier, seed)", "noisy = sums",
               "privacy/test_dp.py::test_moments_leave_with_noise"),
    Protection("an effect beyond its declared bound counts as one at it", "privacy/dp.py",
               "np.concatenate([np.clip(means, -bound, bound), np.clip(sds, 0.0, bound)])",
               "np.concatenate([means, np.clip(sds, 0.0, bound)])",
               "privacy/test_dp.py::test_effects_leave_within_their_bound_and_with_noise"),
    Protection("a site noises moments under differential privacy", "site/describing.py",
               '    if noise is not None and policy.noises("moments"):', "    if False:",
               "site/test_noising.py::test_what_differential_privacy_noises_leaves_a_site_with_noise"),
    Protection("a site noises gradients under differential privacy", "site/summing.py",
               '    if ask.name == "Evaluate" and policy.noises("gradients"):', "    if False:",
               "site/test_noising.py::test_what_differential_privacy_noises_leaves_a_site_with_noise"),
    Protection("a site noises effects under differential privacy", "site/summing.py",
               '    if _is_of_effects(ask) and policy.noises("effects"):', "    if False:",
               "site/test_noising.py::test_what_differential_privacy_noises_leaves_a_site_with_noise"),

    # --- the door and the ledger
    Protection("an answered round has no second request", "site/door.py",
               "if number in self.answered and self.answered[number][0] != digest:", "if False:",
               "site/test_door.py::test_another_request_in_an_answered_round_is_refused"),
    Protection("a round that has passed is over", "site/door.py",
               "if number not in self.answered and number < max(self.answered):", "if False:",
               "site/test_door.py::test_a_round_that_has_passed_is_refused"),
    Protection("an earlier run is over", "site/door.py",
               "        if not self.runs or request.run != self.runs[-1]:", "        if not self.runs:",
               "site/test_door.py::test_once_a_later_run_has_begun_the_earlier_is_over"),
    Protection("no second, different release of one round", "site/door.py",
               "        if released not in (None, sha256(back)):", "        if False:",
               "site/test_door.py::test_after_a_restart_with_other_rows_nothing_different_is_released"),
    Protection("nothing leaves that is not among the answers to its request", "site/door.py",
               "        check_leaving(request, reply, run.masked, run.study.policy.site_effects)\n", "",
               "site/test_door.py::test_what_is_not_among_the_answers_does_not_leave"),
    Protection("what a person does not approve stays", "site/door.py",
               "        self._ask_person(run, request, reply, len(back))\n", "",
               "site/test_door.py::test_what_a_person_does_not_approve_stays"),
    Protection("a reason tells no count", "site/door.py",
               "if code not in WITHOUT_COUNTS or not any(sign.isnumeric() for sign in unnamed):", "if True:",
               "site/test_door.py::test_counts_stay_at_the_site"),
    Protection("an error nobody foresaw leaves no word of it", "site/door.py",
               "        self._log(request, wordless(problem))\n        reason =",
               "        self._log(request, str(problem))\n        reason =",
               "site/test_door.py::test_a_site_that_fails_says_where_to_look_and_no_value"),
    Protection("the ledger comes before the answer", "site/door.py",
               "        entry = self.ledger.append(line)\n",
               "        entry = vars(line) | {'n': 0}\n",
               "site/test_door.py::test_what_cannot_be_recorded_does_not_leave"),
    Protection("a changed line of the ledger is found", "site/ledger.py",
               'if entry.get("hash") != sha256(', 'if False and entry.get("hash") != sha256(',
               "site/test_ledger.py::test_every_flipped_byte_is_found"),
    Protection("each line of the ledger is bound to the one before", "site/ledger.py",
               'if entry.get("previous") != head.hash or entry.get("n") != head.count + 1:', "if False:",
               "site/test_ledger.py::test_a_line_forged_with_a_right_hash_breaks_the_next"),
    Protection("a ledger that was cut at its end is found", "site/ledger.py",
               "    if head.count > len(entries):", "    if False:",
               "site/test_ledger.py::test_deleted_swapped_repeated_and_cut_lines_are_found"),

    # --- policies and kits
    Protection("a policy that is called standard asks for no less", "study/policy.py",
               '        if self.name == "standard":\n            self._check_standard()\n', "",
               "study/test_strictness.py::test_a_study_that_says_standard_and_asks_for_less_is_refused"),
    Protection("the site's own floor holds where it is stricter", "study/policy.py",
               "return self.model_copy(update=held)", "return self",
               "site/test_floors.py::test_a_site_applies_its_floor_where_it_can"),
    Protection("what a site cannot apply alone it refuses at the handshake", "site/opening.py",
               "        check_floors(party.agreed)\n", "",
               "site/test_floors.py::test_a_site_refuses_at_the_handshake_what_it_cannot_apply_alone"),
    Protection("a value loosened by hand is not believed", "site/floors.py",
               "if _is_loose(floors.policy, key) and (known is None or looser(key, value, known.value)):", "if False:",
               "site/test_floors.py::test_a_value_loosened_by_hand_is_refused_and_a_stricter_one_is_not"),
    Protection("a policy's file that others can write is not believed", "site/floors.py",
               "    if path.exists() and path.stat().st_mode & 0o022:", "    if False:",
               "site/test_floors.py::test_a_file_that_others_can_write_is_not_believed"),
    Protection("a changed file of a kit is found", "network/kit.py",
               "if name in files and _digest(files[name]) != sums[name]]", "if False]",
               "network/test_kit.py::test_a_changed_file_is_named"),
    Protection("an added file of a kit is found", "network/kit.py",
               'for name in files if name not in sums])', 'for name in () if name not in sums])',
               "network/test_kit.py::test_missing_and_added_files_are_named"),

    # --- what others send
    Protection("each field of a site's answer has its form", "coordinator/replies.py",
               '    if array.shape != shape or array.dtype.kind not in "if":', "    if False:",
               "coordinator/test_replies.py::test_each_field_of_each_answer_of_a_whole_study"),
    Protection("no number is beyond what sums have", "coordinator/replies.py",
               "        if array.size and not np.abs(array).max() < HUGE:", "        if False:",
               "across/test_faults.py::test_what_is_no_sum_is_refused_and_its_site_named"),
    Protection("a site's words order no terminal about", "plain.py",
               'for letter in _SEQUENCE.sub("", text)).split())', "for letter in text).split())",
               "test_plain.py::test_only_what_a_screen_shows_is_left"),
    Protection("a site's words are bounded", "coordinator/replies.py",
               "    said = plain(refusal.reason) or ", "    said = refusal.reason or ",
               "coordinator/test_replies.py::test_the_words_of_a_site_are_cleaned_and_bounded"),
    Protection("a late answer is none to this round", "coordinator/talk.py",
               " or (reply.run, reply.round, reply.site) != (self.run, self.round, name):", ":",
               "coordinator/test_talk.py::test_a_late_answer_is_refused_by_name"),
    Protection("a damaged message is found", "protocol/codec.py",
               "if hashlib.sha256(memoryview(data)[:-CHECK_BYTES]).digest()[:CHECK_BYTES] != data[-CHECK_BYTES:]:",
               "if False:", "site/test_door.py::test_every_flipped_byte_of_a_request_changes_nothing"),
    Protection("a message is no longer than messages are", "protocol/codec.py",
               "    if len(data) > MAX_BYTES:\n        raise MessageError(f\"a message of",
               "    if False:\n        raise MessageError(f\"a message of",
               "protocol/test_codec.py::test_a_message_too_large_is_refused_on_both_sides"),
    Protection("no shape is absurd, of an empty array either", "protocol/codec.py",
               "\n                   and math.prod(max(n, 1) for n in entry[2]) <= MAX_BYTES)", ")",
               "protocol/test_codec.py::test_an_empty_array_of_absurd_shape_is_refused"),
    Protection("cells of a table are counted before they are read", "table/columns.py",
               "    if rows * columns > MOST_CELLS:", "    if False:",
               "across/test_hostile_files.py::test_a_small_parquet_file_of_many_rows_is_refused_by_its_metadata"),
    Protection("an array of a file is as long as its header says", "bounded.py",
               "    if count * dtype.itemsize != size - begun:", "    if False:",
               "test_bounded.py::test_arrays_that_are_not_what_they_claim"),
    Protection("a query of SQLite reads, and no more", "table/statement.py",
               "        fine = action in READING\n", "        fine = True\n",
               "table/test_statement.py::test_the_authorizer_lets_sqlite_compile_nothing_but_reading"),
    Protection("a query of PostgreSQL is one SELECT", "table/statement.py",
               'if ";" in words or verb not in ("select", "with"):', "if False:",
               "table/test_statement.py::test_anything_else_is_refused"),
    Protection("a result's files are those that were saved", "result/replacement.py",
               "            if _digest(path) != digest:", "            if False:",
               "result/test_replacement.py::test_an_altered_byte_is_found_and_its_file_named"),
    Protection("a letter bears its sender's signature", "mail/letter.py",
               "        sender.identity.verify(data[end:], data[:end])\n", "        pass\n",
               "mail/test_letter.py::test_a_letter_that_another_wrote_in_a_partys_name_does_not_open"),
    Protection("nobody is left out of a linkage without proof", "privacy/tokens.py",
               "return bool(proven and (nonces[:, 1:] != nonces[:, :-1]).all())", "return True",
               "privacy/test_tokens.py::test_who_is_left_out_has_the_witnesses_of_where_they_stay_and_no_others"),

    # --- what is ended has ended
    Protection("SIGTERM ends a command", "network/signals.py",
               "HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)", "HEARD = (signal.SIGINT, signal.SIGQUIT)",
               "network/test_signals.py::test_a_signal_that_the_shell_ignored_ends_the_command_all_the_same"),
    Protection("a worker ends with its command, though that was killed", "network/tether.py",
               'Thread(target=self._outlive_command, args=(self.lock,), daemon=True, name="command").start()', "pass",
               "network/test_processes.py::test_released_by_its_command_a_process_ends_by_itself"),
    Protection("a worker looks for its command before an answer leaves", "network/tether.py",
               "        if self.gone():\n            os._exit(ENDED)\n", "        pass\n",
               "network/test_tether.py::test_without_a_thread_that_watches_the_look_before_an_answer_is_enough"),
    Protection("once the operator's command has ended nothing leaves", "site/door.py",
               "            back = self._answer(data)\n            self.tied()\n",
               "            back = self._answer(data)\n",
               "site/test_door.py::test_once_the_operators_command_has_ended_nothing_leaves"),
    Protection("only a message of ours passes the engine's filter", "network/leaving.py",
               "    if not isinstance(message, Reply):", "    if False:",
               "network/test_flare.py::test_the_filter_blocks_what_is_no_reply"),
)


def copied(folder: Path) -> None:
    """What tests need: the package, its tests, and what these read beside them; with what Python has compiled."""
    for name in ("src", "tests", "docs", "assurance", "release"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "README.md", "Makefile"):
        shutil.copy2(ROOT / name, folder / name)


def took_out(folder: Path, one: Protection) -> None:
    path = folder / "src" / "fedci" / one.file
    text = path.read_text(encoding="utf-8")
    if text.count(one.old) != 1:
        raise SystemExit(f"{one.file} has the text of '{one.what}' {text.count(one.old)} times: mend its record")
    path.write_text(text.replace(one.old, one.new), encoding="utf-8")


def ran(folder: Path, tests: Iterable[str], *more: str, seconds: float = SECONDS) -> tuple[int, str]:
    """(status, what was said) of pytest in a copy; -1: it did not end. Programs that were compiled for the tree serve
    its copies; processes that a test leaves end with it."""
    programs = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(ROOT / ".pytest_cache" / "programs")
    around = os.environ | {"PYTHONPATH": str(folder / "src"), "JAX_COMPILATION_CACHE_DIR": programs}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", *more,
               *(f"tests/{test}" for test in tests)]
    with (folder / "said.txt").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, cwd=folder, env=around, stdout=said, stderr=said, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = -1
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said.seek(0)
        return status, said.read()


def failing_anyway(chosen: Sequence[Protection]) -> set[str]:
    """Tests that do not pass in an untouched copy."""
    tests = list(dict.fromkeys(one.test for one in chosen))
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        status, said = ran(Path(folder), tests, "-rA", seconds=SECONDS * len(tests))
    if status not in (0, FAILED):
        print(said[-3000:], file=sys.stderr)
        return set(tests)
    lines = [line.split(" ", 1) for line in said.splitlines() if line.startswith(("PASSED ", "FAILED ", "ERROR "))]
    passed = {_test_of(rest) for word, rest in lines if word == "PASSED"}
    return set(tests) - passed | {_test_of(rest) for word, rest in lines if word != "PASSED"}


def _test_of(line: str) -> str:
    """FILE::NAME of a line of pytest's summary."""
    return re.split(r"\[| - ", line.removeprefix("tests/"))[0].strip()


def noticed(one: Protection) -> tuple[bool, str]:
    """(whether its test fails without it, the first words of the failure)."""
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        took_out(Path(folder), one)
        status, said = ran(Path(folder), [one.test], "-x")
    words = [line[1:].strip() for line in said.splitlines() if line.startswith("E ")]
    return status == FAILED, words[0] if words else said[-300:].strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="protections with this word in their words, file or test")
    how = parser.parse_args()
    chosen = [one for one in PROTECTIONS if how.only in f"{one.what} {one.file} {one.test}"]
    start = time.monotonic()
    failing = failing_anyway(chosen)
    missed = []
    for one in chosen:
        begun = time.monotonic()
        found, words = (False, NOT_PASSED) if one.test in failing else noticed(one)
        print(f"{'noticed' if found else 'NOT NOTICED'} | {time.monotonic() - begun:.0f} s | {one.what} | {one.test} | "
              f"{words}", file=sys.stderr, flush=True)
        missed += [] if found else [one.what]
    note = f"{time.monotonic() - start:.0f} s" + (f"; not noticed: {', '.join(missed)}" if missed else "")
    print(json.dumps({"tries": len(chosen), "recovered": len(missed), "note": note}))


if __name__ == "__main__":
    main()
