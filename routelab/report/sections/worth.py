"""What should a reader look at first?"""

from __future__ import annotations

from collections.abc import Iterator

from routelab.report.content import Material, Notices, Section, Words
from routelab.report.reading import merge

MOST_SKIPPED = 3


def section(material: Material) -> Section:
    """Everything that failed, is missing or is so by construction, before any figure."""
    rows = [*_capture(material), *_results(material)]
    blocks = [Notices(rows)] if rows else [Words("Nothing stands out: every check passed.")]
    return Section("Worth a look", blocks)


def _capture(material: Material) -> Iterator[tuple[str, str]]:
    card = material.card
    if not card.complete:
        done = f"{card.committed:,} of {card.data.images:,} images"
        yield f"The capture is not complete: {done} are in.", "captured"
    if not card.certificate.checks:
        yield "The capture has no certificate: nothing proves that it is whole.", "captured"
    for check in card.certificate.checks:
        if not check.passed:
            text = f"The certificate's check of {check.name} failed. {check.detail}"
            yield text.strip(), "captured"
    for layer, reason in card.refused.items():
        yield f"Layer {layer} was left out: {reason}", "captured"
    skipped = card.data.skipped
    if skipped:
        named = ", ".join(skipped[:MOST_SKIPPED])
        more = f" and {len(skipped) - MOST_SKIPPED} more" if len(skipped) > MOST_SKIPPED else ""
        yield f"{len(skipped)} unreadable files were left out: {named}{more}.", "captured"


def _results(material: Material) -> Iterator[tuple[str, str]]:
    """Each warning once, under the first analysis that gave it."""
    seen: set[str] = set()
    for name, result in material.results.items():
        for warning in merge(result.warnings):
            if warning not in seen:
                seen.add(warning)
                yield warning, name
