"""The hash of a study: of all that must agree between the parties, however it was written down."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from fedci.study.identity import RULE
from fedci.study.outcomes import OF_TYPES

if TYPE_CHECKING:
    from fedci.study.study import Study

HASH_FORMAT = 2
"""Raised when the meaning of a study changes, so that old and new packages do not agree by chance."""


def hash_of(study: Study) -> str:
    agreed = study.model_dump(exclude={"preset", "options"})
    agreed["policy"] = study.agreed_policy.model_dump()
    agreed["sites"] = sorted(study.sites)
    if study.source is None:
        del agreed["source"]
    else:
        agreed["source"] = study.source.model_dump(exclude_none=True)
    agreed["coding"] = {name: coding.plain() for name, coding in study.coding.items()}
    for key in ("coding", "rows_without", "cluster", "arms", "subgroups", "design", "estimand", "decisions"):
        if getattr(study, key) == type(study).model_fields[key].default:  # what a study does not say is no part of it
            del agreed[key]
    # a study has the hash that it had before there were other types
    agreed = {key: value for key, value in agreed.items() if key not in OF_TYPES
              or value != type(study).model_fields[key].default}
    agreed["fit"] = study.fit_options().model_dump()
    if not agreed["fit"]["model"].get("sum_noise"):  # nor before sums could have noise
        del agreed["policy"]["sum_noise"]
        for key in ("sum_noise", "noise_masked"):
            agreed["fit"]["model"].pop(key, None)
    if not study.diagnostics.negative_controls:  # nor before there were many of them
        del agreed["diagnostics"]["negative_controls"]
    agreed["format"] = HASH_FORMAT
    agreed["ids_rule"] = RULE
    return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()
