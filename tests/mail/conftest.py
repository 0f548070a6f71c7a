"""One study by files, walked once from its first request to its result, and kept as it stood at some of its steps."""

from dataclasses import dataclass

import pytest

from support.mailed import Mailed, plan


@dataclass
class Walked:
    mailed: Mailed
    """At the end."""
    steps: dict[int, str]
    """Step → what was asked in it."""
    stages: dict[str, Mailed]
    """What was asked → the study as it stood, when it was first written and not yet answered."""
    requests: dict[str, int]
    """What was asked → the step in which it was so first."""


@pytest.fixture(scope="session")
def walked(tmp_path_factory) -> Walked:
    """With linkage and masks; the checkpoint is written every second round, and a fit of more than four answers is
    long, so that both are gone on from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedci.coordinator.checkpoint.EVERY", 2)
        patch.setattr("fedci.mail.answering.LONG", 4)
        patch.setattr("fedci.mail.answering.LAST", 1)
        made = Mailed(tmp_path_factory.mktemp("mailed"), plan())
        steps, stages, requests = {}, {}, {}
        stands = made.next()
        while stands.result is None:
            steps[stands.step] = stands.request
            if stands.request not in stages:
                requests[stands.request] = stands.step
                stages[stands.request] = made.copied(tmp_path_factory.mktemp("stage"))
            for site, path in stands.requests.items():
                made.answer(site, path)
            stands = made.next()
    return Walked(made, steps, stages, requests)


@pytest.fixture
def stage(walked, tmp_path):
    """A copy of the study at a step, which a test may spoil."""
    return lambda request: walked.stages[request].copied(tmp_path / request)
