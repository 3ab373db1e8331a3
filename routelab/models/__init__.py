"""MoE vision transformers: routers, experts, layers, and the checkpoints that hold them."""

from routelab.models.build import build, insert_moe, mlp_blocks, moe_layers, router_specs
from routelab.models.checkpoints import (
    card_path,
    file_sha256,
    load_checkpoint,
    read_card,
    read_weights,
    save_checkpoint,
)
from routelab.models.counts import Counts, count
from routelab.models.entmax import entmax15
from routelab.models.experts import ExpertBank, Experts, SharedExperts
from routelab.models.layer import MoELayer
from routelab.models.lineage import LineageTensors, lineage_arrays
from routelab.models.losses import (
    auxiliary_losses,
    balance_loss,
    importance_loss,
    load_loss,
    router_z_loss,
)
from routelab.models.memory import keep_freed_memory
from routelab.models.routers import ROUTERS, Router
from routelab.models.routing import Assignments, ExpertRows, Routing, SoftWeights, SparseChoice
from routelab.models.upcycle import copy_dense

__all__ = [
    "ROUTERS",
    "Assignments",
    "Counts",
    "ExpertBank",
    "ExpertRows",
    "Experts",
    "LineageTensors",
    "MoELayer",
    "Router",
    "Routing",
    "SharedExperts",
    "SoftWeights",
    "SparseChoice",
    "auxiliary_losses",
    "balance_loss",
    "build",
    "card_path",
    "copy_dense",
    "count",
    "entmax15",
    "file_sha256",
    "importance_loss",
    "insert_moe",
    "keep_freed_memory",
    "lineage_arrays",
    "load_checkpoint",
    "load_loss",
    "mlp_blocks",
    "moe_layers",
    "read_card",
    "read_weights",
    "router_specs",
    "router_z_loss",
    "save_checkpoint",
]
