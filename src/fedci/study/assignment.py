"""How treatment came about: by somebody's choice, or drawn by lot.

    design = "randomised"                                   one to one
    design = { kind = "randomised", treated = 0.667 }       two treated for one who is not

Of a randomised study nothing that nobody measured can have chosen the treatment: what the diagnostics say of
confounding is left out, and the plain difference of the arms stands beside the model's effect.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from fedci.study.stated import Stated


class Design(Stated):
    """Of the study; `observational` where it says nothing."""

    kind: Literal["observational", "randomised"] = "observational"
    treated: Annotated[float, Field(strict=True, gt=0, lt=1)] | None = None
    """The share that the lot gives the treatment; None: a half."""

    @staticmethod
    def _place(data: Any) -> str:
        return "design"

    @property
    def randomised(self) -> bool:
        return self.kind == "randomised"

    @property
    def share(self) -> float:
        return 0.5 if self.treated is None else self.treated

    def plain(self) -> Any:
        """As a study file has it."""
        return self.kind if self.treated is None else {"kind": self.kind, "treated": self.treated}
