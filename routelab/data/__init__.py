"""Images in a fixed order with stable ids: folders, the bundled digits, timm's data sets."""

from routelab.data.dataset import Batch, Dataset, dataset, listing_sha256
from routelab.data.digits import digits_dataset
from routelab.data.folder import folder_dataset
from routelab.data.named import named_dataset
from routelab.data.opening import open_data
from routelab.data.transforms import evaluation_transform, thumbnail, training_transform

__all__ = [
    "Batch",
    "Dataset",
    "dataset",
    "digits_dataset",
    "evaluation_transform",
    "folder_dataset",
    "listing_sha256",
    "named_dataset",
    "open_data",
    "thumbnail",
    "training_transform",
]
