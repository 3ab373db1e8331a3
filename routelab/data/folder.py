"""Which images does a folder hold, in which order, and can every one of them be read?

Either `CLASS/…/image.jpg`, where the first folder names the class, or images without labels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from PIL import Image

from routelab.data.images import Images, make_images
from routelab.data.pixels import UNREADABLE
from routelab.records import Refusal, Transform

OnCorrupt = Literal["refuse", "skip"]

ENDINGS = frozenset(
    {".avif", ".bmp", ".gif", ".jp2", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})

PIECE = 256
"""Images that are checked before it is asked whether that was enough."""


def image_folder(
    folder: Path,
    transform: Transform,
    *,
    split: str = "",
    on_corrupt: OnCorrupt = "refuse",
    limit: int | None = None,
    workers: int = 2,
) -> Images:
    """The images of a folder, sorted by relative path (code points, `/` between parts).

    Parameters
    ----------
    folder
        Holds class folders, or images without labels; hidden files are passed over.
    transform
        How pixels are made.
    split
        A folder within `folder` that is read instead, for example "test".
    on_corrupt
        Every image is decoded once, small, before any is used. One that cannot be read is refused
        by name, or skipped and named in the card.
    limit
        Only the first images that can be read.
    workers
        Threads that check.

    Raises
    ------
    Refusal
        No such folder, no images, images beside class folders, splits where classes were expected,
        or unreadable images.
    """
    root = _existing(folder, split)
    names = sorted(_image_names(root))
    classes, labels = _classes(root, names)
    kept, skipped = _readable(root, names, limit, workers)
    if skipped and on_corrupt == "refuse":
        raise Refusal(_unreadable(folder, skipped))
    if skipped and not kept:
        raise Refusal(f"none of the {len(skipped)} images in {root} can be read")
    names = [names[i] for i in kept]
    return make_images(
        str(folder),
        split,
        [printable(name) for name in names],
        [labels[i] for i in kept],
        classes,
        transform,
        lambda index: Image.open(root / names[index]),
        skipped=[printable(name) for name, _ in skipped],
    )


def printable(name: str) -> str:
    """A file name as text that can be stored: bytes that are not UTF-8 become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _existing(folder: Path, split: str) -> Path:
    """The folder that is read."""
    if not folder.exists():
        raise Refusal(f"data folder {folder} does not exist; check the path")
    if not folder.is_dir():
        raise Refusal(f"{folder} is a file, not a folder of images; give the folder it lies in")
    if not split:
        return folder
    if not (folder / split).is_dir():
        there = ", ".join(sorted(p.name for p in folder.iterdir() if p.is_dir())[:8])
        raise Refusal(
            f"{folder} has no folder for split {split!r}; "
            f"{f'it has {there}' if there else 'leave --split out'}"
        )
    return folder / split


def _image_names(root: Path) -> Iterator[str]:
    """Relative paths of all image files; symbolic links are followed, but not in circles."""
    for place, folders, files in os.walk(root, followlinks=True):
        here = Path(place)
        folders[:] = [
            name for name in folders if not name.startswith(".") and not _circular(here / name)
        ]
        for name in files:
            if not name.startswith(".") and Path(name).suffix.lower() in ENDINGS:
                yield (here / name).relative_to(root).as_posix()


def _circular(folder: Path) -> bool:
    """True if the folder is a link that leads back to a folder on the way to it."""
    if not folder.is_symlink():
        return False
    return folder.resolve() in {above.resolve() for above in folder.absolute().parents}


def _classes(root: Path, names: Sequence[str]) -> tuple[list[str], list[int]]:
    """Class folders in order, empty ones too, and each image's label; none for a flat folder."""
    if not names:
        raise Refusal(
            f"{root} holds no images; RouteLab reads {', '.join(sorted(ENDINGS))} "
            "in class folders or flat"
        )
    flat = [name for name in names if "/" not in name]
    if len(flat) == len(names):
        return [], [-1] * len(names)
    if flat:
        raise Refusal(
            f"{root} holds class folders and also images beside them ({printable(flat[0])}); "
            "move these into a class folder or out of it"
        )
    classes = sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))
    if SPLITS.issuperset(classes):
        raise Refusal(f"{root} holds the splits {', '.join(classes)}; choose one with --split")
    index = {name: label for label, name in enumerate(classes)}
    return [printable(name) for name in classes], [index[name.split("/", 1)[0]] for name in names]


def _readable(
    root: Path, names: Sequence[str], limit: int | None, workers: int
) -> tuple[list[int], list[tuple[str, str]]]:
    """The first `limit` readable images, and name and fault of those before that are not."""
    wanted = len(names) if limit is None else limit
    kept: list[int] = []
    faults: list[tuple[str, str]] = []
    with ThreadPoolExecutor(max(workers, 1)) as pool:
        for start in range(0, len(names), PIECE):
            piece = names[start : start + PIECE]
            for place, fault in enumerate(pool.map(lambda name: _fault(root / name), piece)):
                if len(kept) == wanted:
                    return kept, faults
                if fault:
                    faults.append((piece[place], fault))
                else:
                    kept.append(start + place)
    return kept, faults


def _fault(path: Path) -> str:
    """Why an image cannot be read, or nothing; JPEG is decoded at an eighth of its size."""
    try:
        with Image.open(path) as image:
            image.draft("RGB", (1, 1))
            image.load()
    except UNREADABLE as error:
        return str(error) or type(error).__name__
    return ""


def _unreadable(folder: Path, faults: Sequence[tuple[str, str]]) -> str:
    """One sentence that names the files."""
    named = ", ".join(f"{printable(name)} ({fault})" for name, fault in faults[:5])
    more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
    what, them = ("an image", "it") if len(faults) == 1 else (f"{len(faults)} images", "them")
    return (
        f"{what} in {folder} cannot be read: {named}{more}; "
        f"repair or remove {them}, or leave {them} out with --skip-corrupt"
    )
