"""Which pixels, label and id, in which order? Image folders, bundled digits and named data sets."""

from routelab.data.augment import Augmentation, augment
from routelab.data.batches import Batch
from routelab.data.digits import digits
from routelab.data.folder import OnCorrupt
from routelab.data.images import Images
from routelab.data.memory import InMemory, in_memory
from routelab.data.opening import open_data

__all__ = [
    "Augmentation",
    "Batch",
    "Images",
    "InMemory",
    "OnCorrupt",
    "augment",
    "digits",
    "in_memory",
    "open_data",
]
