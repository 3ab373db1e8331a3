"""Ground floor: typed values that every room may use. NumPy and pydantic only."""

from routelab.records.cards import (
    CaptureCard,
    Certificate,
    Check,
    DataCard,
    Level,
    ModelCard,
    StoreCard,
    Transform,
)
from routelab.records.refusal import Refusal
from routelab.records.result import Quantity, Result
from routelab.records.spec import (
    ExpertChoiceRouting,
    ExpertGroup,
    GroupRange,
    ImageRouting,
    MoESpec,
    Record,
    RouterConfig,
    RouterKind,
    RouterSpec,
    SoftRecipe,
    SoftRouting,
    SpheroRouting,
    TopKRouting,
)

__all__ = [
    "CaptureCard",
    "Certificate",
    "Check",
    "DataCard",
    "ExpertChoiceRouting",
    "ExpertGroup",
    "GroupRange",
    "ImageRouting",
    "Level",
    "MoESpec",
    "ModelCard",
    "Quantity",
    "Record",
    "Refusal",
    "Result",
    "RouterConfig",
    "RouterKind",
    "RouterSpec",
    "SoftRecipe",
    "SoftRouting",
    "SpheroRouting",
    "StoreCard",
    "TopKRouting",
    "Transform",
]
