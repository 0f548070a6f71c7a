"""What a site may be called: the name stands in messages, ledgers and file names."""

from __future__ import annotations

import re
from typing import Any

from fedci.errors import StudyError

SITE_ID = re.compile(r"[a-z0-9-]{1,40}")
"""What names a site: it stands in messages, ledgers and file names, so it is short and plain."""


def check_site_id(site: Any) -> None:
    """The form of a site's name, `[a-z0-9-]{1,40}`."""
    if not isinstance(site, str) or not SITE_ID.fullmatch(site):
        raise StudyError(f"site {site!r}: a site's name is 1 to 40 of the characters a-z, 0-9 and '-'")
    if site == "all":
        raise StudyError("site 'all': the tables call all sites together so. Give the site another name")
