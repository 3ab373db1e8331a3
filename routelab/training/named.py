"""Which published recipes can be had by name? Each number with where it comes from.

Sources: MoE Jetpack (arXiv 2406.04801), Tables 6 and 7 of the paper, and its released
configuration `moejet/configs/timm/vit_tiny_dual_moe_timm_21k_ft.py` (repository Adlith/MoE-Jetpack
at 45214a6), which differ in places; ViMoE (arXiv 2410.15732).
"""

from __future__ import annotations

import difflib
from typing import Any, NamedTuple

from routelab.records import Refusal


class NamedRecipe(NamedTuple):
    """What a recipe is for, where its numbers come from, and its values."""

    says: str
    source: str
    values: dict[str, Any]


_JETPACK: dict[str, Any] = {
    "epochs": 300,
    "learning_rate": 4e-3,  # Table 6, at a batch of 4096
    "weight_decay": 0.05,
    "label_smoothing": 0.1,
    "mixing": {"mixup": 0.8, "cutmix": 1.0},
    "pictures": {
        "rand_augment": "rand-m9-mstd0.5-inc1",  # RandAug(9, 0.5)
        "erasing": 0.25,
        "erasing_fill": "rand",  # the configuration's mode "rand"
    },
    "layer_decay": 0.6,  # released configuration only; MoE parts keep the full rate
    "clip": 5.0,  # released configuration
    "final_rate": 0.01,  # its eta_min_ratio
    "warmup_start": 0.001,  # its start factor
    "precision": "float16",  # its AMP wrapper
    "seed": 3407,
}

RECIPES = {
    "jetpack-imagenet": NamedRecipe(
        "MoE Jetpack on ImageNet: 300 epochs, batches of 4096, layer-wise decay 0.6",
        "released configuration; 20 epochs of warm-up and drop path 0.1 are its own, the paper's "
        "Table 7 has 50 and 0",
        _JETPACK | {"batch_size": 1024, "accumulation": 4, "warmup": 20 / 300, "drop_path": 0.1},
    ),
    "jetpack-small": NamedRecipe(
        "MoE Jetpack on CIFAR-like data: batches of 512, 50 of 300 epochs of warm-up",
        "Tables 6 and 7 (CIFAR-10, CIFAR-100, Food-101: drop path 0.1); layer-wise decay, clipping "
        "and the end of the cosine from the released ImageNet configuration, the only one",
        _JETPACK | {"batch_size": 512, "warmup": 50 / 300, "drop_path": 0.1},
    ),
    "vimoe-finetune": NamedRecipe(
        "fine-tuning a pretrained ViT with MoE layers, in the manner of ViMoE",
        "200 epochs as reported for its ImageNet-1k fine-tuning of DINOv2; its table of the other "
        "numbers was not at hand, so they are a common fine-tuning recipe for ViTs (layer-wise "
        "decay 0.65, drop path 0.1) with the Switch balance loss at 0.01, for sparse routers",
        {
            "epochs": 200,
            "batch_size": 1024,
            "learning_rate": 4e-3,
            "final_rate": 2.5e-4,
            "warmup": 0.05,
            "weight_decay": 0.05,
            "layer_decay": 0.65,
            "label_smoothing": 0.1,
            "drop_path": 0.1,
            "clip": None,
            "mixing": {"mixup": 0.8, "cutmix": 1.0},
            "pictures": {
                "rand_augment": "rand-m9-mstd0.5-inc1",
                "erasing": 0.25,
                "erasing_fill": "pixel",
            },
            "precision": "bfloat16",
            "auxiliary": {"balance": 0.01},
        },
    ),
    "digits": NamedRecipe(
        "the demo's small ViT on 8 × 8 digits, one CPU core, under a minute",
        "chosen for `routelab demo`",
        {
            "epochs": 13,
            "batch_size": 32,
            "learning_rate": 4e-3,
            "augmentation": {"shift": 0.05},
        },
    ),
}


def recipe_named(name: str) -> dict[str, Any]:
    """The values of a recipe.

    Raises
    ------
    Refusal
        Unknown name, with the nearest.
    """
    if name not in RECIPES:
        near = difflib.get_close_matches(name, RECIPES, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(RECIPES)}"
        raise Refusal(f"there is no recipe {name!r}; {hint}")
    return RECIPES[name].values
