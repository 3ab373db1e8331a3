"""Which routing does a reader of the store see? The stored arrays as the value that layers take."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from routelab.capture.quantize import FixedPoint, dequantize
from routelab.models import Routing, SoftWeights, SparseChoice, entmax15
from routelab.records import RouterSpec, SoftRecipe


def restore_routing(arrays: Mapping[str, Tensor], spec: RouterSpec) -> Routing:
    """The `Routing` value that stored arrays stand for.

    Parameters
    ----------
    arrays
        What `full_routing` gave, by name.
    spec
        The layer.
    """
    if not spec.soft:
        probs = arrays["probs"].float()
        return SparseChoice(
            expert=arrays["expert"].long(),
            gate=arrays["gate"],
            slot=arrays["slot"].long(),
            probs=probs,
            logits=probs,
            noisy_logits=probs,
        )
    if spec.recipe is None:
        dispatch, combine = arrays["dispatch"].float(), arrays["combine"].float()
        return SoftWeights(dispatch, combine, dispatch)
    logits = dequantize(FixedPoint(arrays["logits"], arrays["logits_scale"]))
    return SoftWeights(*apply_recipe(logits, spec.recipe), logits)


def apply_recipe(logits: Tensor, recipe: SoftRecipe) -> tuple[Tensor, Tensor]:
    """Dispatch and combine `(B, N, S)` from logits by the layer's recipe."""
    dispatch = (logits / recipe.dispatch_temperature).softmax(dim=1)
    scaled = logits / recipe.combine_temperature
    combine = entmax15(scaled, dim=-1) if recipe.combine == "entmax15" else scaled.softmax(dim=-1)
    return dispatch, combine
