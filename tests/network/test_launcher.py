"""How the engine starts a job is known, and its processes are tied."""

import os
import sys

import pytest
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.job_launcher_spec import JobProcessArgs

from fedci.network import launcher


class Context:
    """What the engine says of a job."""

    def get_prop(self, name):
        assert name == FLContextKey.JOB_PROCESS_ARGS
        return {JobProcessArgs.EXE_MODULE: ("-m", "the.engines.module"), JobProcessArgs.WORKSPACE: ("-m", "/kit")}


@pytest.mark.parametrize("kind", [launcher.SiteLauncher, launcher.CoordinatorLauncher])
def test_a_job_is_the_engines_module_tied_to_the_engine(kind):
    assert kind().get_command({}, Context()) == (
        f"{sys.executable} -u -m fedci.network.tether {os.getpid()} the.engines.module -m /kit")


def test_a_call_of_another_form_is_not_started():
    with pytest.raises(ValueError, match="another way"):
        launcher.tied("engine --job 1")
