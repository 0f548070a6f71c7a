"""The errors a user can meet. Each says what was got, what is needed and what to do next.

    FedciError                     a stable code, an exit code and the general remedy
    ├── InputError            2    something a person can mend and run again
    │   ├── StudyError             the study file or the options of the call
    │   ├── SourceError            a file that cannot be read as a table
    │   ├── DataError              values that do not fit the study
    │   ├── SizeError              too few rows to be safe, or too many for the memory
    │   ├── OutputError            a result that cannot be written or read
    │   └── UsageError             a call the object cannot answer (unknown site, row count, …)
    ├── DisclosureError       3    the site's policy does not let this leave
    │   └── FloorError             the study asks for less than the site does of any study
    ├── FederationError       4
    │   ├── MessageError           a message that is not what it claims to be
    │   ├── HandshakeError         two parties that do not run the same study
    │   ├── SiteError              a site that failed or answered out of turn
    │   └── AwayError              a site that does not answer in time: the run pauses, nothing is lost
    └── NumericalError        5    the numbers ran away: not positive definite, not finite

No message ever shows the value of a cell: a row number, a column and a site are enough to mend it.
"""

from __future__ import annotations

from fedci.plain import printable


class FedciError(Exception):
    """Root of the tree. `code` is stable and travels between parties; `help` the general remedy, for documentation."""

    code = "error"
    exit_code = 1
    help = "Report this with the command and the versions that `fedci --version` prints."

    def __init__(self, message: str):
        """On one line and printable, whoever's words it quotes."""
        super().__init__(printable(message))

    @property
    def message(self) -> str:
        return str(self)


class InputError(FedciError):
    code = "input"
    exit_code = 2
    help = "Mend the input that the message names and run the same command again; nothing was changed."


class StudyError(InputError):
    code = "study"
    help = "Open the study file (or the call) at the key the message names; docs/study.md lists every key."


class SourceError(InputError):
    code = "source"
    help = "The file must be a UTF-8 CSV with a header, or Parquet. Export it again and retry."


class DataError(InputError):
    code = "data"
    help = "Correct the column at the site, or describe it differently in the study file."


class SizeError(InputError):
    code = "size"
    help = "The disclosure policy of the study sets minimum sizes, and the machine's memory the maximum."


class OutputError(InputError):
    code = "output"
    help = "Choose another folder with --out, or pass --force to replace an earlier result."


class UsageError(InputError):
    code = "usage"
    help = "See the docstring of the method, or `--help` of the command."


class DisclosureError(FedciError):
    code = "disclosure"
    exit_code = 3
    help = "The site's policy decides what may leave. Ask the site, or ask for less."


class FloorError(DisclosureError):
    """Told in full: it names values of two policies, and nothing of the data."""

    code = "floor"
    help = "A site's own policy (`fedci site policy`) holds for every study. Make the study stricter, or ask the site."


class FederationError(FedciError):
    code = "federation"
    exit_code = 4
    help = "Check that every party runs the same study file and package version, then run again."


class MessageError(FederationError):
    code = "message"
    help = "The message was damaged or made by another version. Nothing of it was used; send it again."

    def __init__(self, message: str, site: str = ""):
        super().__init__(message)
        self.site = site  # who sent it, where that is known


class HandshakeError(FederationError):
    code = "handshake"
    help = "Give every party the same study file and the same version of fedci."


class SiteError(FederationError):
    code = "site"
    help = "Look at the named site's own output: the reason stands there."


class AwayError(FederationError):
    code = "away"
    help = "Start the site's command again, and then the coordinator's: it goes on from its checkpoint."


class NumericalError(FedciError):
    code = "numerical"
    exit_code = 5
    help = "Look for duplicated rows and extreme values, lower the learning rate, or raise `jitter`."


def tree(root: type[FedciError] = FedciError) -> list[type[FedciError]]:
    """Every class below and including `root`, parents first."""
    return [root] + [error for child in root.__subclasses__() for error in tree(child)]


def from_code(code: str, message: str) -> FedciError:
    """The error a party reported by `code`; an unknown code is a plain SiteError, never a crash."""
    known = {error.code: error for error in tree()}
    return known.get(code, SiteError)(message)
