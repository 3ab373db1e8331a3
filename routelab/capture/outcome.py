"""What does a capture hand back to the one who asked for it?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from routelab.capture.plan import Plan
from routelab.records import Certificate

Status = Literal["planned", "complete", "interrupted"]


@dataclass(frozen=True)
class CaptureReport:
    """How a capture ended.

    Attributes
    ----------
    status
        "planned" after a dry run, "interrupted" after a signal, else "complete".
    store
        Where the store is, or would be.
    plan
        What was, or would be, written.
    committed
        Images safely stored.
    certificate
        What the capture proves; empty unless complete.
    timing
        Seconds, images a second, stall, overhead: all that differs from run to run.
    warnings
        Sentences that a user should read.
    resume
        The command that goes on after an interruption, else "".
    exit_code
        0; 130 or 143 after SIGINT or SIGTERM; 5 where the certificate has a failed check.
    """

    status: Status
    store: Path
    plan: Plan
    committed: int = 0
    certificate: Certificate = field(default_factory=Certificate)
    timing: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    resume: str = ""
    exit_code: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return {
            "status": self.status,
            "store": str(self.store),
            "committed": self.committed,
            "plan": self.plan.to_dict(),
            "certificate": self.certificate.model_dump(mode="json")["checks"],
            "timing": self.timing,
            "warnings": list(self.warnings),
            "resume": self.resume,
        }
