"""Which file would one send to a colleague? One that holds everything: words, numbers, figures."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from routelab import __version__
from routelab.records import Refusal
from routelab.report.content import Material, Section
from routelab.report.render import page
from routelab.report.sections import SECTIONS
from routelab.store import CaptureStore, open_store


def write_report(store: CaptureStore | str | Path, out: str | Path) -> Path:
    """Write what a store says as one self-contained HTML file.

    Results are read as they are saved; nothing is computed again. What is missing is listed with
    the command that makes it.

    Parameters
    ----------
    store
        An open store, or the path of one.
    out
        The file to write; replaced whole, or left as it was if anything fails.

    Returns
    -------
    Path
        Of the file written.

    Raises
    ------
    Refusal
        No store at the path, or the file cannot be written.
    """
    opened = open_store(Path(store)) if isinstance(store, str | Path) else store
    material = Material(opened, {name: opened.result(name) for name in opened.results()})
    sections = build(material)
    card = material.card
    title = f"Routing of {card.model.architecture} on {card.data.source or 'images'}"
    subtitle = f"{opened.path} · RouteLab {__version__}"
    target = Path(out)
    _replace(target, page(title, subtitle, _tiles(material), sections))
    return target


def build(material: Material) -> dict[str, Section]:
    """The sections that this store has something to say in, in reading order."""
    made = {key: make(material) for key, make in SECTIONS.items()}
    return {key: section for key, section in made.items() if section is not None}


def _tiles(material: Material) -> list[tuple[str, str, str]]:
    card, store = material.card, material.store
    certificate = card.certificate
    state, kind = ("passed", "good") if certificate.passed else ("failed", "bad")
    if not certificate.checks:
        state, kind = "none", "bad"
    kinds = ", ".join(sorted({spec.kind for spec in store.layers})) or "none"
    return [
        (f"{store.committed:,}", "images", "" if card.complete else "bad"),
        (f"{len(store.layers)}", f"MoE layers ({kinds})", ""),
        (f"{len(material.classes)}", "classes", ""),
        (f"{store.full:,}", "images with full routing", ""),
        (state, "capture certificate", kind),
    ]


def _replace(target: Path, text: str) -> None:
    """Write beside the target, then rename, so that a reader never sees half a report."""
    if target.is_dir():
        raise Refusal(f"{target} is a folder; name a file, for example {target / 'report.html'}")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(target)
    except OSError as error:
        raise Refusal(
            f"the report cannot be written to {target} ({error.strerror}); choose another --out"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
