"""Which images does a user mean by a folder or a name?"""

from __future__ import annotations

from pathlib import Path

from routelab.data.digits import digits
from routelab.data.folder import OnCorrupt, image_folder
from routelab.data.images import Images
from routelab.data.named import is_named, named_data
from routelab.records import Transform


def open_data(
    source: str | Path,
    transform: Transform,
    *,
    split: str = "",
    on_corrupt: OnCorrupt = "refuse",
    limit: int | None = None,
    workers: int = 2,
) -> Images:
    """Open a folder, "digits", or a data set of torchvision or timm that is already on disk.

    Parameters
    ----------
    source
        A folder; `digits`; `torchvision:NAME?root=FOLDER`; `timm:NAME?root=FOLDER`.
    transform
        How pixels are made; a checkpoint's card has it.
    split
        A folder within the folder; a split of a data set that has several, by default its test
        images.
    on_corrupt
        What happens to image files that cannot be read.
    limit
        Only the first images.
    workers
        Threads that check the files.

    Raises
    ------
    Refusal
        Nothing there, or unreadable images.
    """
    if str(source) == "digits":
        data = digits(transform, split or "test")
    elif is_named(str(source)):
        data = named_data(str(source), transform, split=split)
    else:
        data = image_folder(
            Path(source),
            transform,
            split=split,
            on_corrupt=on_corrupt,
            limit=limit,
            workers=workers,
        )
    return data.first(limit)
