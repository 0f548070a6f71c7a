"""What coordinator and sites say to each other: typed, versioned, size-checked; no pickle, nothing executable.

    bytes = b"FCI2" | header length (u32, big endian) | header (JSON, UTF-8) | arrays (raw, little endian) | check
    check = the first 8 bytes of the SHA-256 of all before: damage on the way is found (lies are TLS's part)
    header = {"type", "fields": {…}, "arrays": [[name, dtype, shape], …]}

A request asks a site for one thing; a `Reply` carries *named sums* (gradients, moments, per-draw sums of effects)
and never anything per person. Only linkage sends something for each person, keyed `Tokens` (docs/linkage.md).
All shapes are checked against the bytes that came before an array is made.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from dataclasses import dataclass, field, fields

import numpy as np

from fedci.errors import MessageError

MAGIC = b"FCI2"
CHECK_BYTES = 8
MAX_BYTES = 16 * 2**20
MAX_NESTING = 8
MAX_ARRAYS = 256
DTYPES = {"<f8": 8, "<i8": 8, "|b1": 1}
NAMED_ARRAYS = "dict[str, np.ndarray]"
"""The type of a field that holds arrays by name; a message has at most one, and then no other arrays."""


@dataclass(frozen=True)
class Message:
    run: str
    """The study's run: a message of another run is refused."""
    round: int
    """Counts all exchanges of a run; a reply repeats its request's."""
    site: str
    """The site asked, or the site that answers."""


@dataclass(frozen=True)
class Hello(Message):
    """Handshake: both sides must run the same study, options and version."""

    version: str
    study_hash: str
    options: dict
    seed: int = 0
    """Of the run: the start and the draws follow from it, so a site can tell what it will be asked."""
    refuter: str = ""
    """Of a run that refutes: what the site changes in its rows (`protocol.refuting`)."""


@dataclass(frozen=True)
class AskLinkKey(Message):
    """Linkage begins: the site's public key of this run (or that it has a key from a file), and how many people."""


@dataclass(frozen=True)
class WrapLinkKey(Message):
    """To the lead site: every site's public key and signature (hex), for it to wrap the study's key with."""

    publics: dict
    signatures: dict


@dataclass(frozen=True)
class TakeLinkKey(Message):
    """To every other site: the study's key that the lead site wrapped for it."""

    lead: str
    public: str
    signature: str
    wrapped: str


@dataclass(frozen=True)
class AskTokens(Message):
    """The site's keyed tokens in their own order, in `parts` of about equal size."""

    part: int
    parts: int


@dataclass(frozen=True)
class Exclude(Message):
    """Those of the site's own tokens whose people stay at other sites; after the last part it forgets the key."""

    tokens: np.ndarray
    part: int
    parts: int


@dataclass(frozen=True)
class AskMaskKey(Message):
    """Secure sums begin: the site's public key of this run, signed by its identity."""


@dataclass(frozen=True)
class TakeMaskKeys(Message):
    """All sites' public keys and signatures (hex): the cohort of every sum of this run. The lead site answers with the
    key of the checks, wrapped for each of the others."""

    publics: dict
    signatures: dict


@dataclass(frozen=True)
class TakeCheckKey(Message):
    """To every other site: the key of the checks that the lead site wrapped for it."""

    wrapped: str


@dataclass(frozen=True)
class OpenSum(Message):
    """All sites' uploads are there: every site's share for this site (hex), which it unseals and answers with."""

    shares: dict


@dataclass(frozen=True)
class AskMoments(Message):
    """The four moments of each column (policy permitting)."""


@dataclass(frozen=True)
class Prepare(Message):
    """The common units, and the site's place in the model."""

    x_mean: np.ndarray
    x_sd: np.ndarray
    y_mean: float
    y_sd: float
    u: np.ndarray
    """The site's own moments in model units."""
    index: int
    sites: int
    indicators: np.ndarray
    """Columns with missing values somewhere: each gets a 0/1 column of its own at every site."""
    people: int = 0
    """Of all sites."""
    few_rows: int = 0
    """The first rounds look at so many people of a site at most (`protocol.stages`); 0: at all."""
    few_people: int = 0
    """That is so many of all sites."""
    all_u: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    """[m, q] every site's moments in model units, where sites follow the fit of the model `paper`; else empty."""


@dataclass(frozen=True)
class Evaluate(Message):
    """The site's term of the objective, its gradient in Θ and in the draws."""

    theta: np.ndarray
    phi_roots: np.ndarray
    sigma_roots: np.ndarray
    previous: dict[str, np.ndarray] = field(default_factory=dict)
    """The sum over all sites that this request follows from, where sites follow the fit; else empty."""


@dataclass(frozen=True)
class AskEffects(Message):
    """Per-draw sums of effects over the site's people; the site keeps Θ and the draws for its own predictions."""

    theta: np.ndarray
    phi_roots: np.ndarray
    sigma_roots: np.ndarray
    g: np.ndarray
    correlations: np.ndarray
    """Noise correlations at which realised effects are summed; the first, NaN, stands for Σ's own draws."""
    previous: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class AskStatistics(Message):
    """Model `shared`, first half of a round: the site's sums T, v, c, l for each draw of θ."""

    thetas: np.ndarray
    previous: dict[str, np.ndarray] = field(default_factory=dict)
    few: np.ndarray = field(default_factory=lambda: np.zeros(()))
    """Over at most so many of the site's people (Prepare.few_rows); 0.0: over all."""


@dataclass(frozen=True)
class PullBack(Message):
    """Second half: the derivative of the objective in those sums; the site answers with its derivative in each θ."""

    thetas: np.ndarray
    gram: np.ndarray
    cross: np.ndarray
    square: np.ndarray
    log_det: np.ndarray
    previous: dict[str, np.ndarray] = field(default_factory=dict)
    few: np.ndarray = field(default_factory=lambda: np.zeros(()))


@dataclass(frozen=True)
class AskSharedEffects(Message):
    """As AskEffects, for draws of θ and of β."""

    thetas: np.ndarray
    betas: np.ndarray
    correlations: np.ndarray
    previous: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class AskDiagnostic(Message):
    """One kind of diagnostic (`DIAGNOSTICS`), at parameters that the site checks (docs/diagnostics.md)."""

    kind: str
    values: dict[str, np.ndarray]


@dataclass(frozen=True)
class Reply(Message):
    sums: dict[str, np.ndarray] = field(default_factory=dict)
    notes: dict = field(default_factory=dict)
    """Counts and warnings in words; never a value of a person."""


@dataclass(frozen=True)
class Tokens(Message):
    """Answers AskTokens: [k, 2] int64, the two halves of each token."""

    tokens: np.ndarray


@dataclass(frozen=True)
class Refusal(Message):
    """Why a site does not answer."""

    code: str
    reason: str


TYPES = {cls.__name__: cls for cls in (Hello, AskLinkKey, WrapLinkKey, TakeLinkKey, AskTokens, Exclude, AskMaskKey,
                                       TakeMaskKeys, TakeCheckKey, OpenSum, AskMoments, Prepare, Evaluate, AskEffects,
                                       AskStatistics, PullBack, AskSharedEffects, AskDiagnostic, Reply, Tokens,
                                       Refusal)}


DIAGNOSTICS: dict[str, set[str]] = {
    "propensity": {"log_likelihood", "gradient", "hessian"},
    "balance": {"size", "mean", "variance", "told", "weight", "square"},
    "overlap": {"counts", "hidden", "totals", "totals_hidden", "where_size", "where_mean", "where_told"},
    "outcome": {"effect", "residuals", "places", "places_hidden", "bins", "bins_hidden", "line", "treated_share"},
}
"""The arrays that answer each kind of diagnostic."""
_EFFECTS = {"cate_mean", "cate_var", "ite_mean", "ite_var", "ite_sd", "people"}
ANSWERS: dict[str, set[str]] = {
    "AskTokens": {"tokens"},
    "AskMoments": {"x", "x_count", "suppressed", "incomplete", "y0", "y0_count", "y1", "y1_count", "w", "w_count"},
    "Evaluate": {"objective", "gradient", "phi_roots", "sigma_roots", "failed"},
    "AskStatistics": {"gram", "cross", "square", "log_det", "failed"},
    "PullBack": {"gradient"},
    "AskEffects": _EFFECTS, "AskSharedEffects": _EFFECTS,
} | {f"AskDiagnostic.{kind}": names for kind, names in DIAGNOSTICS.items()}
"""The arrays that answer each type of request: no more may leave a site, no fewer are an answer. A type that is not
here is answered without arrays."""
SUMMED = {"Evaluate", "AskStatistics", "PullBack", "AskEffects", "AskSharedEffects", "AskDiagnostic.propensity",
          "AskDiagnostic.outcome"}
"""Requests whose answers are summed over the sites; under secure sums only the masked sum leaves, and beside it what is
told site by site (`answers`)."""
SITE_BY_SITE = {"AskDiagnostic.outcome": {"effect", "residuals"}}
"""What the report says of each site: told in the clear beside a masked sum. Of the effects the site's own averages are,
if the study asks for them."""
MASKED, OWN = "masked", "own/"
"""The name of a masked answer, and how the names of a site's own averages begin."""


def answers(asked: str, secure: bool, site_effects: bool = False) -> set[str]:
    """The arrays that answer a type of request."""
    if not secure or asked not in SUMMED:
        return ANSWERS.get(asked, set())
    own = _EFFECTS if site_effects and ANSWERS[asked] is _EFFECTS else SITE_BY_SITE.get(asked, set())
    return {MASKED, *(OWN + name for name in own)}


NAMED = "dict[str, np.ndarray]"
"""The type of a field of named arrays: they travel as arrays named FIELD/NAME."""


def asked(message: Message) -> str:
    """The name under which a request is answered: its type's, for a known diagnostic with its kind."""
    name = type(message).__name__
    return f"{name}.{message.kind}" if isinstance(message, AskDiagnostic) and message.kind in DIAGNOSTICS else name


def encode(message: Message) -> bytes:
    """The message as bytes; MessageError when it is too large."""
    plain, arrays = {}, {}
    for part in fields(message):
        value = getattr(message, part.name)
        if isinstance(value, np.ndarray):
            arrays[part.name] = value
        elif part.type == NAMED:
            arrays |= {f"{part.name}/{name}": np.asarray(array) for name, array in value.items()}
        else:
            plain[part.name] = value
    arrays = {name: _portable(name, array) for name, array in arrays.items()}
    header = json.dumps({"type": type(message).__name__, "fields": plain,
                         "arrays": [[name, a.dtype.str, list(a.shape)] for name, a in arrays.items()]}).encode()
    data = sealed(b"".join([MAGIC, struct.pack(">I", len(header)), header, *(a.tobytes() for a in arrays.values())]))
    if len(data) > MAX_BYTES:
        raise MessageError(f"a {type(message).__name__} of {len(data):,} bytes is over the limit of {MAX_BYTES:,}; "
                           f"use fewer draws or a smaller mean function")
    return data


def sealed(data: bytes) -> bytes:
    """The bytes, and their check."""
    return data + hashlib.sha256(data).digest()[:CHECK_BYTES]


def _portable(name: str, array: np.ndarray) -> np.ndarray:
    kind = {"f": "<f8", "i": "<i8", "u": "<i8", "b": "|b1"}.get(array.dtype.kind)
    if kind is None:
        raise MessageError(f"the array {name!r} of type {array.dtype} cannot be sent: use float64, int64 or bool")
    return np.asarray(array, dtype=kind, order="C")


def decode(data: bytes) -> Message:
    """The message in `data`; MessageError says what is wrong with anything else."""
    if len(data) > MAX_BYTES:
        raise MessageError(f"a message of {len(data):,} bytes is over the limit of {MAX_BYTES:,}")
    if data[:4] != MAGIC or len(data) < 8 + CHECK_BYTES:
        raise MessageError("not a message of this version of fedci: the opening bytes differ")
    if hashlib.sha256(memoryview(data)[:-CHECK_BYTES]).digest()[:CHECK_BYTES] != data[-CHECK_BYTES:]:
        raise MessageError("the message was damaged on its way: its check differs")
    data = data[:-CHECK_BYTES]
    (length,) = struct.unpack(">I", data[4:8])
    header = _header(data[8:8 + length], length)
    arrays = _arrays(header["arrays"], data[8 + length:])
    return _message(header, arrays)


def _header(data: bytes, length: int) -> dict:
    if len(data) != length:
        raise MessageError("the message is cut short in its header")
    try:
        header = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise MessageError("the header of the message is not JSON") from None
    shape_is_right = (isinstance(header, dict) and header.keys() == {"type", "fields", "arrays"}
                      and isinstance(header["type"], str) and isinstance(header["fields"], dict)
                      and isinstance(header["arrays"], list) and len(header["arrays"]) <= MAX_ARRAYS)
    if not shape_is_right or _nesting(header["fields"]) > MAX_NESTING:
        raise MessageError("the header of the message does not have the form of one")
    return header


def _no_constant(word: str):
    """NaN and Infinity are no JSON."""
    raise ValueError(word)


def _nesting(value) -> int:
    """Depth of nested JSON, walked without recursion."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        stack.extend((child, depth + 1) for child in children)
    return deepest


def _arrays(declared: list, data: bytes) -> dict[str, np.ndarray]:
    arrays, at = {}, 0
    for entry in declared:
        name, dtype, shape = _declaration(entry)
        size = math.prod(shape) * DTYPES[dtype]
        if at + size > len(data):
            raise MessageError(f"the message is cut short in the array {name!r}")
        array = np.frombuffer(data, dtype, math.prod(shape), at).reshape(shape)
        arrays[name] = array
        at += size
    if at != len(data) or len(arrays) != len(declared):
        raise MessageError("the message carries more bytes or names than it declares")
    return arrays


def _declaration(entry) -> tuple[str, str, tuple[int, ...]]:
    well_formed = (isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str)
                   and isinstance(entry[1], str) and entry[1] in DTYPES
                   and isinstance(entry[2], list) and len(entry[2]) <= MAX_NESTING
                   and all(type(n) is int and 0 <= n <= MAX_BYTES for n in entry[2])
                   and math.prod(max(n, 1) for n in entry[2]) <= MAX_BYTES)
    if not well_formed:
        raise MessageError("an array of the message is not declared as name, type and shape")
    return entry[0], entry[1], tuple(entry[2])


def _message(header: dict, arrays: dict[str, np.ndarray]) -> Message:
    cls = TYPES.get(header["type"])
    if cls is None:
        raise MessageError("the message is of a type this version does not know")
    given = dict(header["fields"])
    named = {part.name: {} for part in fields(cls) if part.type == NAMED}
    if named.keys() & given.keys():
        raise MessageError("the sums of a message must be arrays named sums/…, and nothing else may be one")
    for name, array in arrays.items():
        holder, slash, rest = name.partition("/")
        if holder in named and slash:
            named[holder][rest] = array
        elif cls is Reply:
            raise MessageError("the sums of a Reply must be arrays named sums/…, and nothing else may be one")
        else:
            given[name] = array
    given |= named
    expected = {part.name: part.type for part in fields(cls)}
    if given.keys() != expected.keys():
        raise MessageError(f"a {cls.__name__} must carry exactly {', '.join(expected)}")
    for name, value in given.items():
        _check_field(cls, name, expected[name], value)
    return cls(**given)


KINDS = {"str": str, "int": int, "float": (int, float), "dict": dict, "np.ndarray": np.ndarray, NAMED: dict}


def _check_field(cls, name: str, kind: str, value) -> None:
    if not isinstance(value, KINDS[kind]) or isinstance(value, bool):
        raise MessageError(f"the field {name!r} of a {cls.__name__} must be of type {kind}")
    arrays = value.values() if kind == NAMED else [value] if isinstance(value, np.ndarray) else []
    for array in arrays:
        unset = np.isnan(array) if name == "correlations" else False  # NaN stands for "Σ's own" there, and only there
        if array.dtype.kind == "f" and not (unset | np.isfinite(array)).all():
            raise MessageError(f"an array {name!r} of a {cls.__name__} holds NaN or infinity")
    if kind == "float" and not (abs(value) <= sys.float_info.max):
        raise MessageError(f"the field {name!r} of a {cls.__name__} must be finite")
