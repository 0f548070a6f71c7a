"""Live lines: the phase, then the time left; none is left behind."""

import io

from rich.console import Console

from fedci.cli import progress
from fedci.coordinator.coordinator import Round
from fedci.protocol.forecast import Clock
from fedci.study.options import OptimiserOptions


def test_progress_tells_the_phase_then_the_time_left():
    """The first round compiles: it is no measure of those to come."""
    console = Console(file=io.StringIO(), force_terminal=True, width=140)

    def shown():
        return show.bar.tasks[0].fields["line"]

    with progress.round_progress(console=console, clock=Clock(OptimiserOptions(rounds=20, tolerance=0.0), 3)) as show:
        show.watch("AskMeans", 0, 3)
        assert shown() == "moments: site 1 of 3"
        show(Round(number=1, cap=20, objective=-5.0, gradient_norm=1.0, seconds=30.0))
        assert shown().endswith("1.0e+00")
        show.watch("AskStatistics", 0, 3)
        assert "round 1/20" in shown()
        show(Round(number=3, cap=20, objective=-4.0, gradient_norm=0.5, seconds=32.0))
        assert shown().endswith(", about 17 s left")
        show.watch("AskSharedEffects", 0, 3)
        assert shown() == "effects: site 1 of 3"
        show.begin("refuter placebo (1 of 2)")
        show(Round(number=1, cap=20, objective=-5.0, gradient_norm=1.0, seconds=9.0))
        assert shown().startswith("refuter placebo (1 of 2): round 1/20")
    assert "round 1/20" in console.file.getvalue()


def test_what_ends_before_the_first_round_leaves_no_line():
    console = Console(file=io.StringIO(), width=140)
    with progress.round_progress(console=console) as show:
        show.watch("Hello", 0, 1)
    assert console.file.getvalue().strip() == ""
