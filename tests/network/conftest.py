"""Kits of one small study, made once: `kits` is copied for each test that changes them."""

import shutil

import pytest

pytest.importorskip("nvflare", reason="the extra `network` is not installed: pip install 'fedci[network]'")

from fedci.network.provision import new_network
from fedci.network.rehearsal import make_people, make_study
from fedci.site import floors
from tests_support import PLANTED, SMALL


@pytest.fixture(autouse=True, scope="session")
def compiled_once():
    """Every party of every run is a process of its own; what one has compiled, however small, JAX gives the others."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"):
            patch.setenv(name, "0")
        yield


@pytest.fixture(autouse=True, scope="session")
def simulated_people(tmp_path_factory):
    """What every site's operator has to say of a study under the policy `simulation`."""
    path = tmp_path_factory.mktemp("floors") / floors.FILE
    floors.write_floors(floors.based_on("simulation", "drawn at random"), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(floors.VARIABLE, str(path))
        yield path


@pytest.fixture(scope="session")
def study():
    return make_study(options=SMALL)


@pytest.fixture(scope="session")
def made(study, tmp_path_factory):
    """(folder with the kits and each site's data, the sites' tables)."""
    out = tmp_path_factory.mktemp("network")
    tables = make_people(out, study, **PLANTED)
    new_network(study, (), "localhost", out / "kits", port=8443)
    return out, tables


@pytest.fixture
def kits(made, tmp_path):
    """A copy that a test may spoil."""
    shutil.copytree(made[0] / "kits", tmp_path / "kits")
    for site in made[1]:
        shutil.copytree(made[0] / site, tmp_path / site)
    return tmp_path
