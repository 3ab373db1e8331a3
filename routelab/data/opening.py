"""What does the word after `--data` mean? A folder, `digits`, or `NAME:ROOT` of a timm data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from routelab.data.dataset import Dataset
from routelab.data.digits import digits_dataset
from routelab.data.folder import OnCorrupt, folder_dataset
from routelab.data.named import named_dataset
from routelab.records import Transform


def open_data(
    source: str | Path,
    transform: Transform,
    *,
    split: str = "test",
    on_corrupt: OnCorrupt = "refuse",
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Open images for evaluation.

    Parameters
    ----------
    source
        An existing folder; `digits`; or `torch/cifar10:ROOT`, a data set of timm's under ROOT.
    transform
        How pixels are made.
    split
        Of `digits` and named data sets; a folder is its own split.
    on_corrupt
        Whether unreadable files in a folder are refused or skipped.
    progress
        Called with (files checked, files) while a folder is read.

    Raises
    ------
    Refusal
        In one sentence, whatever is wrong with the source.
    """
    word = str(source)
    if not Path(word).exists():
        if word == "digits":
            return digits_dataset(transform, split=split)
        name, colon, root = word.partition(":")
        if colon and "/" in name:
            return named_dataset(name, root, transform, split=split)
    return folder_dataset(Path(word), transform, on_corrupt=on_corrupt, progress=progress)
