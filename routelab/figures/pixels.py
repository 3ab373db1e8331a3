"""How do pixels travel inside a figure? As a PNG in a data URI, with no imaging library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import ArrayLike

COLOUR_TYPE = {1: 0, 3: 2, 4: 6}
"""PNG colour type by number of channels: grey, RGB, RGBA."""


def png(pixels: ArrayLike) -> bytes:
    """Encode pixels as PNG (RFC 2083: 8 bits, no filter, no interlace).

    Parameters
    ----------
    pixels
        uint8, shape (h, w, c) with c = 1, 3 or 4, or (h, w) for grey.

    Raises
    ------
    ValueError
        Another type or shape.
    """
    array = np.asarray(pixels)
    array = array[..., None] if array.ndim == 2 else array
    if array.ndim != 3 or array.dtype != np.uint8 or array.shape[2] not in COLOUR_TYPE:
        raise ValueError(
            f"pixels must be uint8 of shape (h, w, 1, 3 or 4), not {array.dtype} {array.shape}"
        )
    height, width, channels = array.shape
    rows = np.zeros((height, 1 + width * channels), dtype=np.uint8)  # filter byte 0, then the row
    rows[:, 1:] = array.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPE[channels], 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def data_uri(pixels: ArrayLike) -> str:
    """Pixels as `data:image/png;base64,...`; shapes as `png`."""
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", checksum)
