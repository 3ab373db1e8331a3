"""Which sections has a report, in which order? Each is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable

from routelab.report.content import Material, Section
from routelab.report.sections import (
    captured,
    clusters,
    coactivation,
    concentration,
    consistency,
    images,
    information,
    load,
    missing,
    paths,
    probe,
    specialization,
    worth,
)

SECTIONS: dict[str, Callable[[Material], Section | None]] = {
    "worth": worth.section,
    "captured": captured.section,
    "load": load.section,
    "consistency": consistency.section,
    "information": information.section,
    "probe": probe.section,
    "specialization": specialization.section,
    "concentration": concentration.section,
    "coactivation": coactivation.section,
    "paths": paths.section,
    "clusters": clusters.section,
    "images": images.section,
    "missing": missing.section,
}
"""Section makers by key, in reading order; a maker returns None where it has nothing to say.

The key of an analysis's section is the name of its Result.
"""
