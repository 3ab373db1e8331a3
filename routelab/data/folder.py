"""Which images lie in a folder? `CLASS/…/image` or images alone, sorted; the path is the id."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from PIL import Image

from routelab.data.dataset import Dataset, dataset
from routelab.records import Refusal, Transform

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm"})
OnCorrupt = Literal["refuse", "skip"]


def folder_dataset(
    root: Path,
    transform: Transform,
    *,
    on_corrupt: OnCorrupt = "refuse",
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Images below `root`; its subfolders are the classes, and without any there are no labels.

    Every file is decoded once before the run, so that an unreadable one is known before a night is
    spent: `refuse` names them, `skip` leaves them out and lists them in the card.

    Raises
    ------
    Refusal
        Missing or empty folder, images beside class folders, or unreadable images.
    """
    root = Path(root)
    files = image_files(root)
    classes = class_names(root, files)
    readable, skipped = sort_out(root, files, on_corrupt=on_corrupt, progress=progress)
    number = {name: label for label, name in enumerate(classes)}
    labels = [number[file.parts[0]] if classes else -1 for file in readable]
    return dataset(
        source=str(root),
        split=root.name,
        classes=classes,
        ids=[file.as_posix() for file in readable],
        labels=labels,
        transform=transform,
        open_picture=lambda row: open_image(root / readable[row]),
        skipped=skipped,
    )


def image_files(root: Path) -> list[Path]:
    """Paths of the images below a folder, relative to it, in POSIX order, without hidden files."""
    if not root.exists():
        raise Refusal(f"image folder {root} does not exist; check the path")
    if not root.is_dir():
        raise Refusal(f"{root} is a file, not a folder of images; give the folder")
    found = (p.relative_to(root) for p in root.rglob("*") if p.suffix.lower() in SUFFIXES)
    files = [p for p in found if not any(part.startswith(".") for part in p.parts)]
    if not files:
        raise Refusal(
            f"folder {root} holds no images ({', '.join(sorted(SUFFIXES))}); "
            "give a folder of class folders, or of images"
        )
    return sorted(files, key=lambda p: p.as_posix())


def class_names(root: Path, files: list[Path]) -> list[str]:
    """Names of the class folders, sorted; empty folders count, files at the top must be alone."""
    loose = [file for file in files if len(file.parts) == 1]
    if len(loose) == len(files):
        return []
    if loose:
        raise Refusal(
            f"folder {root} holds images beside class folders (first: {loose[0]}); "
            "move them into a class, or give one class folder alone"
        )
    return sorted(p.name for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def sort_out(
    root: Path,
    files: list[Path],
    *,
    on_corrupt: OnCorrupt,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Path], list[str]]:
    """Files that decode, and the names of those that do not."""
    readable: list[Path] = []
    corrupt: list[Path] = []
    with ThreadPoolExecutor(4) as pool:
        verdicts = pool.map(lambda file: is_readable(root / file), files)
        for done, (file, good) in enumerate(zip(files, verdicts, strict=True), start=1):
            (readable if good else corrupt).append(file)
            if progress is not None:
                progress(done, len(files))
    names = [file.as_posix() for file in corrupt]
    if corrupt and on_corrupt == "refuse":
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise Refusal(
            f"{len(names)} of {len(files)} images in {root} cannot be read: "
            f"{', '.join(names[:3])}{more}; repair or remove them, or pass --skip-corrupt"
        )
    if not readable:
        raise Refusal(f"none of the {len(files)} images in {root} can be read; check the folder")
    return readable, names


def is_readable(path: Path) -> bool:
    """Whether a file decodes to the end."""
    try:
        with Image.open(path) as picture:
            picture.load()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False
    return True


def open_image(path: Path) -> Image.Image:
    """The decoded picture, its file closed."""
    with Image.open(path) as picture:
        picture.load()
        return picture
