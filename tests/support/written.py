"""A ledger of a few lines."""

from fedci.site.ledger import LEDGER, Ledger, Left, sha256


def left(number: int, **changes) -> Left:
    plain = {"run": "r1", "round": number, "phase": "fit", "request": "Evaluate", "request_sha256": sha256(b"asked"),
             "reply": "Reply", "reply_sha256": sha256(b"told"), "bytes": 100 + number,
             "sums": {"gradient": [3, 2], "failed": []}}
    return Left(**plain | changes)


def written(folder, count: int = 4) -> list[dict]:
    with Ledger(folder) as book:
        return [book.append(left(number)) for number in range(1, count + 1)]


def lines(folder) -> list[bytes]:
    return (folder / LEDGER).read_bytes().splitlines(keepends=True)
