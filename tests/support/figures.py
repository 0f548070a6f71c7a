"""Rows of a benchmark, made up."""

from fedci.benchmark.run.cells import Cell


def cells(values, method="FedCI", mode="fed", *, dataset="data-1", sources=3, protocol="P2", **figures):
    return [Cell(dataset=dataset, method=method, mode=mode, sources=sources, replication=replication, protocol=protocol,
                 pehe=value, **figures)
            for replication, value in enumerate(values)]


def failed(count, method="BCF", mode="com", *, dataset="data-1", sources=3, start=0):
    return [Cell(dataset=dataset, method=method, mode=mode, sources=sources, replication=start + k, protocol="P2",
                 failed="ValueError: a | b") for k in range(count)]


def rows(text):
    """{first cell: the others} of the lines of a table."""
    lines = [line.strip("| ").replace("\\|", "/").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {line[0]: line[1:] for line in lines}
