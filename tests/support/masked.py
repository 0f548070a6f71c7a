"""Parties of a masked study, prepared up to its first round."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedci.coordinator import coordinator, masked_sums
from fedci.coordinator.talk import PlainSums, Talk
from fedci.privacy.agreement import Credentials
from fedci.protocol import rounds
from fedci.site.site import Site
from tests_support import Wire, hospitals, small, study

SIZES = (40, 37, 39)
FEW = {"optimiser": {"rounds": 6}, "prediction": {"draws": 16}}
SECURE = {"name": "simulation", "secure_sum": "auto", "check_trajectory": True}


def plan(preset="classic", policy=SECURE, **changes):
    return study(preset=preset, policy=policy, options=FEW if preset == "classic" else small(6), **changes)


def local(agreed, sizes=SIZES, credentials=None):
    return {source.name: Site(agreed, source.read(agreed), (credentials or {}).get(source.name))
            for source in hospitals(*sizes)}


def prepared(policy=SECURE, sizes=SIZES, change=lambda request, reply: reply, engine=Wire, **changes):
    """(talk, rules) of a study whose fit is about to begin."""
    agreed = plan(policy=policy, **changes)
    talk = Talk(engine(local(agreed, sizes), change), "run")
    options = agreed.fit_options()
    coordinator.handshake(talk, agreed, options)
    sums = masked_sums.agree(talk) if agreed.policy.secures(len(sizes)) else PlainSums()
    layout = coordinator.agree_units(talk, agreed, options)
    return talk.on(coordinator.terms_of(layout, agreed, sums)), coordinator.rules_of(layout, options, 0)


# --- what a site refuses


def with_identities(count=3):
    keys = {f"site-{s}": Ed25519PrivateKey.generate() for s in range(count)}
    peers = {name: key.public_key() for name, key in keys.items()}
    return {name: Credentials(identity=key, peers=peers) for name, key in keys.items()}


# --- opening


def one_round(talk, rules):
    return talk.follow(rounds.evaluation(rules, rounds.begin(rules, rules.model.first_vector(0))))[0]
