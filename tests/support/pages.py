"""A folder of results, made up."""

from fedci.benchmark.run.cells import Cell, SiteEffect

METHODS = (("FedCI", "fed"), ("FedCI", "com"), ("FedCI", "loc"), ("FedCI (no inter-dependency)", "fed"),
           ("FedCI (paper)", "fed"), ("BART", "com"), ("oracle", "com"))


def made_up():
    """Two replications of everything a page shows; BCF fails."""
    level = {method: 1.0 + 0.25 * place for place, (method, _) in enumerate(METHODS)}
    for dataset in ("data-1", "null"):
        for method, mode in METHODS:
            for sources in (1, 3):
                for replication in range(2):
                    for protocol in ("P1", "P2", "P3"):
                        yield Cell(dataset=dataset, method=method, mode=mode, sources=sources, replication=replication,
                                   protocol=protocol, pehe=level[method] / sources + 0.1 * replication,
                                   ate_error=0.2, coverage=0.9, width=3.0, ate_covered=1.0, ate_width=0.5,
                                   ate_rejects=0.0, seconds=2.0)
    yield Cell(dataset="data-1", method="BCF", mode="com", sources=3, replication=0, protocol="P2",
               failed="not installed")


def effects():
    return [SiteEffect(dataset=dataset, method="FedCI", sources=sources, replication=0, mean=4 + 1 / sources,
                       sd=1 / sources, low=4 - 1 / sources, high=4 + 3 / sources, truth=4.0)
            for dataset in ("data-2", "ihdp") for sources in (1, 2, 3)]


def section(text, name):
    """What stands under a heading of a page."""
    return text.split(f"## {name}\n")[1].split("\n## ")[0]
