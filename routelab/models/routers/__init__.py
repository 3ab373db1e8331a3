"""The router families: one file and one registry line each."""

from collections.abc import Callable

from routelab.models.routers.base import Router
from routelab.models.routers.expert_choice import ExpertChoiceRouter
from routelab.models.routers.image import ImageRouter
from routelab.models.routers.soft import SoftRouter
from routelab.models.routers.sphero import PaperSpheroRouter, ReleasedSpheroRouter, sphero_router
from routelab.models.routers.topk import TopKRouter

ROUTERS: dict[str, Callable[..., Router]] = {
    "soft": SoftRouter,
    "sphero": sphero_router,
    "topk": TopKRouter,
    "expert_choice": ExpertChoiceRouter,
    "image": ImageRouter,
}
"""Router kind → what makes it from (width, experts, slots, config)."""

__all__ = [
    "ROUTERS",
    "ExpertChoiceRouter",
    "ImageRouter",
    "PaperSpheroRouter",
    "ReleasedSpheroRouter",
    "Router",
    "SoftRouter",
    "TopKRouter",
]
