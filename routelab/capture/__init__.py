"""From a forward pass into a store: the only room that hooks models."""

from routelab.capture.options import CaptureOptions
from routelab.capture.outcome import CaptureReport
from routelab.capture.plan import Plan, PlannedArray, parse_bytes, readable
from routelab.capture.reporter import Reporter
from routelab.capture.run import capture
from routelab.capture.verify import replay_store

__all__ = [
    "CaptureOptions",
    "CaptureReport",
    "Plan",
    "PlannedArray",
    "Reporter",
    "capture",
    "parse_bytes",
    "readable",
    "replay_store",
]
