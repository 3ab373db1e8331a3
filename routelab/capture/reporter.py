"""Who is told how a capture goes? Doors draw; this room only says."""

from __future__ import annotations

from routelab.capture.plan import Plan


class Reporter:
    """Told of a capture's progress, in the thread of the forward pass; says nothing itself.

    A door subclasses it and draws.
    """

    def planned(self, plan: Plan) -> None:
        """Take note of what will be stored, before anything is."""

    def advanced(self, images: int, total: int, committed: int) -> None:
        """Take note that `images` of `total` have passed the model, and `committed` are safe."""
