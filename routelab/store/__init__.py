"""The hall between the wings: captured routing on disk, in plain Zarr v3, committed or absent."""

from routelab.store.layout import FORMAT
from routelab.store.reader import CaptureStore, open_store, require_level
from routelab.store.writer import Batch, Column, StoreWriter

__all__ = [
    "FORMAT",
    "Batch",
    "CaptureStore",
    "Column",
    "StoreWriter",
    "open_store",
    "require_level",
]
