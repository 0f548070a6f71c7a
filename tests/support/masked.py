"""Parties of a masked study, prepared up to its first round."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedci.coordinator import coordinator
from fedci.coordinator.talk import Talk
from fedci.privacy.agreement import Credentials
from fedci.protocol import course, rounds
from fedci.protocol.course import Contract
from fedci.site.site import Site
from tests_support import Wire, hospitals, small, study

SIZES = (40, 37, 39)
FEW = {"optimiser": {"rounds": 6}, "prediction": {"draws": 16}}
SECURE = {"name": "simulation", "secure_sum": "auto"}


def plan(preset="classic", policy=SECURE, **changes):
    return study(preset=preset, policy=policy, options=FEW if preset == "classic" else small(6), **changes)


def local(agreed, sizes=SIZES, credentials=None):
    return {source.name: Site(agreed, source.read(agreed), (credentials or {}).get(source.name))
            for source in hospitals(*sizes)}


def prepared(policy=SECURE, sizes=SIZES, change=lambda request, reply: reply, engine=Wire,
             credentials=None, **changes):
    """(talk, contract, what all know) of a study whose fit is about to begin."""
    agreed = plan(policy=policy, **changes)
    sites = local(agreed, sizes, credentials)
    talk, contract = Talk(engine(sites, change), "run"), Contract(agreed, tuple(sorted(sites)))
    coordinator.handshake(talk, contract)
    talk, opened = coordinator.open_course(talk, contract)
    return talk, contract, opened


# --- what a site refuses


def with_identities(count=3):
    keys = {f"site-{s}": Ed25519PrivateKey.generate() for s in range(count)}
    peers = {name: key.public_key() for name, key in keys.items()}
    return {name: Credentials(identity=key, peers=peers) for name, key in keys.items()}


# --- opening


def one_round(talk, contract, opened):
    """(L, ∇L) of the first round."""
    rules = course.rules_of(contract, opened)
    state = rounds.begin(rules, talk.follow(course.start(contract, opened)))
    return talk.follow(rounds.evaluation(rules, state))
