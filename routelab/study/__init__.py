"""Which way of making a MoE model helps? Arms × seeds under one budget, compared fairly."""

from routelab.study.config import Arm, Budget, Study, read_study
from routelab.study.run import run_study

__all__ = ["Arm", "Budget", "Study", "read_study", "run_study"]
