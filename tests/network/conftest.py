"""Kits of one small study, made once: `kits` is copied for each test that changes them."""

import shutil

import pytest

pytest.importorskip("nvflare", reason="the extra `network` is not installed: pip install 'fedci[network]'")

from fedci.network.provision import new_network
from fedci.network.rehearsal import make_people, make_study
from tests_support import SMALL


@pytest.fixture(scope="session")
def study():
    return make_study(options=SMALL)


@pytest.fixture(scope="session")
def made(study, tmp_path_factory):
    """(folder with the kits and each site's data, the sites' tables)."""
    out = tmp_path_factory.mktemp("network")
    tables = make_people(out, study, people=40, twice=6)
    new_network(study, (), "localhost", out / "kits", port=8443)
    return out, tables


@pytest.fixture
def kits(made, tmp_path):
    """A copy that a test may spoil."""
    shutil.copytree(made[0] / "kits", tmp_path / "kits")
    for site in made[1]:
        shutil.copytree(made[0] / site, tmp_path / site)
    return tmp_path
