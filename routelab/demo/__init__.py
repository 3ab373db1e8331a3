"""What does RouteLab show in three minutes? One dense ViT, four routers, four reports."""

from routelab.demo.findings import Finding, Findings
from routelab.demo.run import run_demo
from routelab.demo.variants import VARIANTS, Variant

__all__ = ["VARIANTS", "Finding", "Findings", "Variant", "run_demo"]
