"""A site's side of the linkage: its turn, its own key, and which rows it keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedci import Source
from fedci.errors import DataError, HandshakeError, SizeError
from fedci.privacy.agreement import Credentials
from fedci.protocol.messages import AskLinkKey, AskTokens, Exclude, Refusal, Step, WrapLinkKey
from fedci.site.site import Site
from support.asked import greeting
from support.linked import KEY, cohort, frames, linked, public, sites
from tests_support import frame, study

NOBODY = np.zeros((0, 3), np.int64)
"""Witnesses of people elsewhere, of whom there are none."""


def test_the_lead_notices_its_own_key_changed_and_wraps_once():
    local, spy = sites(), X25519PrivateKey.generate()
    with pytest.raises(HandshakeError, match="came back changed"):
        linked(local, change=lambda m: replace(m, publics=m.publics | {"a": public(spy)})
               if isinstance(m, WrapLinkKey) else m)
    offers = {name: site.answer(AskLinkKey("run", 1, name)).notes["public"] for name, site in local.items()}
    ask = WrapLinkKey("run", 2, "a", offers, {})
    first = local["a"].answer(ask)
    assert local["a"].answer(ask) == first
    again = local["a"].answer(replace(ask, publics=offers | {"b": public(spy)}))
    assert "out of turn" in again.reason
    assert "out of turn" in local["b"].answer(replace(ask, site="b")).reason


def test_by_a_seed_that_is_kept_a_site_that_starts_again_has_the_same_keys_and_without_it_others():
    def said(seed):
        made = sites(credentials={name: Credentials(linkage_seed=seed) for name in "abc"})
        offers = {name: site.answer(AskLinkKey("run", 1, name)).notes["public"] for name, site in made.items()}
        return offers["a"], made["a"].answer(WrapLinkKey("run", 2, "a", offers, {})).notes["wrapped"]

    assert said(KEY) == said(KEY)
    assert said(KEY) != said(bytes(32))
    assert said(None) != said(None)


# ── a site's own rules ──────────────────────────────────────────────────────────────────────────────────────
def refused(site, message) -> str:
    answer = site.answer(message)
    assert isinstance(answer, Refusal), answer
    return answer.reason


def test_linkage_has_its_turn():
    site = sites(credentials={"a": Credentials(key=KEY)})["a"]
    assert "out of turn" in refused(site, AskTokens("run", 1, "a", 0, 1))
    site.answer(AskLinkKey("run", 1, "a"))
    assert "out of turn" in refused(site, Exclude("run", 2, "a", cohort(), NOBODY, 0, 1))
    assert "no part 1 of 1" in refused(site, AskTokens("run", 2, "a", 1, 1))
    assert "no part 0 of 0" in refused(site, AskTokens("run", 2, "a", 0, 0))
    assert "out of turn" in refused(site, AskTokens("other", 2, "a", 0, 1))
    site.answer(AskTokens("run", 2, "a", 0, 1))
    assert "tokens of this site" in refused(site, Exclude("run", 3, "a", cohort(1), NOBODY, 0, 1))
    site.answer(Exclude("run", 4, "a", cohort(), NOBODY, 0, 1))
    assert "out of turn" in refused(site, AskTokens("run", 5, "a", 0, 1))


def test_rows_are_fixed_once_sums_have_left():
    """Else the difference of two answers, with and without one person, would be that person."""
    site = sites()["a"]
    site.answer(Step("run", 2, "a", "AskColumns"))
    assert "before the first sums" in refused(site, AskLinkKey("run", 3, "a"))
    plain = Site(study(), Source("a", frame(40, 0)).read(study()))
    plain.answer(greeting(study()))
    assert "with ids" in refused(plain, AskLinkKey("run", 1, "a"))


def test_a_site_that_repeats_a_person_stops_before_it_sends_anything():
    data = frames()
    data["b"].loc[7, "pid"] = "025"[1:]
    with pytest.raises(DataError, match=r"site 'b': 1 row repeats the id \(pid\).*rows 1 and 8"):
        linked(sites(data=data))


@pytest.mark.parametrize("word", ["NA", " null ", "", None])
def test_a_word_for_missing_is_no_id(word):
    data = frames()
    data["c"].loc[3, "pid"] = word
    with pytest.raises(DataError, match=r"site 'c': column 'pid' has no id in 1 row \(first: row 4\)"):
        linked(sites(data=data))


def test_everyone_excluded_and_too_few_left_are_said_so():
    same = {name: frame(40, s).assign(pid=[str(i) for i in range(40)]) for s, name in enumerate("ab")}
    few = study(ids=["pid"], policy={"name": "simulation", "min_rows": 30})
    with pytest.raises(SizeError, match=r"after linkage: the table has \d+ rows, the policy needs 30"):
        linked(sites(few, data=same), plan=few)
    site = sites()["a"]
    with pytest.raises(SizeError, match="site 'a': after linkage: everyone is excluded"):
        site.restore_linkage(np.arange(0))
    arms = study(ids=["pid"])
    site = sites(arms)["a"]
    with pytest.raises(DataError, match="after linkage: column 'w' has only treated rows"):
        site.restore_linkage(np.flatnonzero(site.run.table.w))


def test_a_site_left_with_one_arm_warns_where_that_is_allowed():
    plan = study(ids=["pid"], policy={"name": "simulation", "allow_single_arm": True})
    site = sites(plan)["c"]
    keep = np.flatnonzero(site.run.table.w == 0)
    site.restore_linkage(keep)
    assert site.run.table.warnings == ("site 'c': after linkage all rows are untreated; effects here rest on the other "
                                   "sites",)
