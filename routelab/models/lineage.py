"""Where do the indices of a recycled model's origin live? Beside its weights, as integer buffers.

They are part of the state dict, so that they travel through training, saving and loading.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

LINEAGE = "lineage"
"""Name of the model's child that holds the indices."""


class LineageTensors(nn.Module):
    """Indices by name, int32; no part of any forward pass."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        super().__init__()
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.int32))

    def fill(self, indices: Mapping[str, NDArray[np.int64]]) -> None:
        """Write indices into the buffers of their names."""
        for name, values in indices.items():
            self.get_buffer(name).copy_(torch.from_numpy(values))

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """The indices by name."""
        return {name: held.cpu().numpy().astype(np.int64) for name, held in self.named_buffers()}


def lineage_arrays(model: nn.Module) -> dict[str, NDArray[np.int64]]:
    """Indices of a model's origin by name; empty for one that was not recycled."""
    held = getattr(model, LINEAGE, None)
    return held.arrays() if isinstance(held, LineageTensors) else {}
