"""A ViT of three blocks over 8 × 8 digits, dense or MoE, and images for it."""

from routelab.data import in_memory, open_data
from routelab.models import build
from routelab.records import ExpertGroup, ModelCard, MoESpec, TopKRouting, Transform

TRANSFORM = Transform(size=8, channels=1, mean=(0.5,), std=(0.5,), interpolation="bilinear")
TOPK = MoESpec(
    layers=(1, 2),
    router=TopKRouting(k=1, noise=1.0),
    groups=(ExpertGroup(experts=4, hidden_ratio=2.0),),
)


def small_card(spec=None) -> ModelCard:
    arguments = {
        "img_size": 8,
        "patch_size": 2,
        "embed_dim": 24,
        "depth": 3,
        "num_heads": 3,
        "mlp_ratio": 2.0,
    }
    return ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments=arguments,
        spec=spec,
        classes=tuple("0123456789"),
        transform=TRANSFORM,
    )


def small_model(spec=None, seed=0):
    return build(small_card(spec), seed=seed)


def some_digits(count, split="train"):
    return in_memory(open_data("digits", TRANSFORM, split=split, limit=count))
