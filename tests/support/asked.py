"""What a course asks, answered by hand; and a site alone, asked by hand."""

from fedci.protocol import course
from fedci.protocol.course import Contract, Place
from fedci.protocol.messages import Hello, Refusal, Step
from fedci.protocol.requests import OWN
from fedci.version import __version__


def came_to(steps, answer):
    """What the generator returns when each of its asks is answered by `answer(ask)`."""
    try:
        ask = next(steps)
        while True:
            ask = steps.send(answer(ask))
    except StopIteration as done:
        return done.value


def greeting(agreed, site="a", run="run", sites=(), number=1, **changes) -> Hello:
    facts = {"version": __version__, "study_hash": agreed.hash(), "sites": dict.fromkeys(sites or (site,), True)}
    return Hello(run, number, site, **facts | changes)


def asked_alone(site, run="run", number=2, refuter=""):
    """(request, reply) of each step of a study of this one site, in the clear, after its handshake; up to a refusal."""
    contract = Contract(site.party.agreed, (site.name,), refuter)
    (place, ask), previous = course.now(contract, Place()), {}
    while ask is not None:
        request = Step(run, number, site.name, ask.name, previous)
        reply = site.answer(request)
        yield request, reply
        if isinstance(reply, Refusal):
            return
        previous = {name: part for name, part in reply.sums.items() if not name.startswith(OWN)}
        (place, ask), number = course.after(contract, place, previous), number + 1


def asked_until(site, name, **how) -> list[Step]:
    """The steps up to the first of this name, asked one after another; the handshake came before."""
    requests = []
    for request, _ in asked_alone(site, **how):
        requests.append(request)
        if request.name == name:
            return requests
    raise AssertionError(f"the course has no {name}")
