"""Which pixels, label and id, in which order? Image folders, bundled digits and named data sets."""

from routelab.data.augment import Augmentation, augment
from routelab.data.batches import Batch
from routelab.data.digits import digits
from routelab.data.folder import OnCorrupt
from routelab.data.images import Images
from routelab.data.memory import InMemory, in_memory
from routelab.data.opening import open_data
from routelab.data.pictures import AugmentedImages, Pictures, drawing_from

__all__ = [
    "Augmentation",
    "AugmentedImages",
    "Batch",
    "Images",
    "InMemory",
    "OnCorrupt",
    "Pictures",
    "augment",
    "digits",
    "drawing_from",
    "in_memory",
    "open_data",
]
