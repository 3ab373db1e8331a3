"""Does the house stand: imports run one way, torch stays in its rooms, everything is documented?"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NUMPY_WING = ["records", "store", "metrics", "projection", "figures", "analysis", "report"]


def test_the_import_contracts_are_kept():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_numpy_wing_never_loads_torch():
    imports = ", ".join(f"routelab.{room}" for room in NUMPY_WING)
    code = f"import {imports}, sys; assert 'torch' not in sys.modules, 'torch was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_numpy_wing_works_where_torch_is_not_installed():
    code = f"""
import importlib, sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchvision", "timm", "safetensors", "entmax"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NoTorch())
for room in {[*NUMPY_WING, "cli"]!r}:
    importlib.import_module(f"routelab.{{room}}")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module")
def documents() -> str:
    return (ROOT / "README.md").read_text() + (ROOT / "ARCHITECTURE.md").read_text()


def test_every_router_is_documented(documents):
    from routelab.models.routers import ROUTERS

    assert not [kind for kind in ROUTERS if f"`{kind}`" not in documents]


def test_every_selection_method_is_documented(documents):
    from routelab.recycling.selection import METHODS

    assert not [method for method in METHODS if f"`{method}`" not in documents]


def test_every_analysis_is_documented(documents):
    from routelab.analysis import ANALYSES

    assert not [name for name in ANALYSES if f"`{name}`" not in documents]


def test_every_figure_is_documented(documents):
    import routelab.figures

    named = [name for name in routelab.figures.__all__ if name[0].islower()]
    assert not [name for name in named if f"`{name}`" not in documents]


def test_every_metric_is_in_the_catalogue_of_the_package():
    import routelab.metrics

    catalogue = routelab.metrics.__doc__ or ""
    functions = [name for name in routelab.metrics.__all__ if name[0].islower()]
    assert not [name for name in functions if not re.search(rf"\b{name}\b", catalogue)]


def test_every_planted_fault_is_documented(documents):
    from routelab.testing import PLANTED

    assert not [kind for kind in PLANTED if f"`{kind}`" not in documents]


def test_no_file_is_a_room_without_a_name_or_too_long_to_read():
    files = [*ROOT.glob("routelab/**/*.py")]
    vague = [f for f in files if re.search(r"(utils?|helpers?|misc|common|manager)\.py$", f.name)]
    long = [f for f in files if len(f.read_text().splitlines()) > 400]
    assert not vague
    assert not long
