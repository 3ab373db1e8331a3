"""The hall between the wings: captured routing on disk, in plain Zarr v3, committed or absent."""

from routelab.store.fingerprint import fingerprint
from routelab.store.layout import FORMAT
from routelab.store.levels import require_level
from routelab.store.reader import CaptureStore, open_store
from routelab.store.resuming import is_complete
from routelab.store.verify import verify_store
from routelab.store.writer import Batch, Column, StoreWriter

__all__ = [
    "FORMAT",
    "Batch",
    "CaptureStore",
    "Column",
    "StoreWriter",
    "fingerprint",
    "is_complete",
    "open_store",
    "require_level",
    "verify_store",
]
