"""What privacy costs: cells that are there are not made again, and ratios are over the same replications."""

from fedci.benchmark.cost import privacy_cost
from fedci.benchmark.cost.privacy_cost import DELTAS, SETS, Cell, cells, table

DATA = next(iter(SETS))


def cell(replication, policy, delta, error):
    return Cell(DATA, replication, policy, delta, error, 0.1 * error, 0.2, 0.95, 1.0)


def whole(replication, error):
    return [cell(replication, "simulation", 0.0, error),
            *(cell(replication, "standard", delta, error * (1 + delta)) for delta in DELTAS)]


def test_what_is_there_is_not_measured_again(monkeypatch):
    asked = []
    monkeypatch.setattr(privacy_cost, "simulated", lambda name, splits, replication, delta: asked.append(
        (name, replication, delta)) or cell(replication, "standard", delta or 0.0, 1.0))
    monkeypatch.setitem(SETS, DATA, lambda replication: [])
    done = [one for one in whole(0, 1.0) if one.delta != 0.3]
    assert len(list(cells(range(2), [DATA], None, done))) == 1 + 1 + len(DELTAS)
    assert asked[0] == (DATA, 0, 0.3)
    assert {replication for _, replication, _ in asked[1:]} == {1}


def test_ratios_are_over_replications_of_which_all_is_there():
    lines = table([*whole(1, 3.0), *whole(0, 1.0), *whole(2, 100.0)[:4]]).splitlines()
    assert len(lines) == 2 + 1 + len(DELTAS)
    assert "| × 1.300 | × 1.300 | × 1.000 | 0.950 |" in next(line for line in lines if "| 0.3 |" in line)
