import importlib
import subprocess
import sys

import pytest

from routelab.cli import COMMANDS, main


def test_the_overview_names_every_command(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == shown
    assert all(f"  {name} " in shown for name in COMMANDS)


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("routelab 0.")


def test_an_unknown_command_gets_the_nearest(capsys):
    assert main(["captrue"]) == 2
    assert "did you mean 'capture'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name, capsys):
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    command = importlib.import_module(f"routelab.cli.{name}")
    assert command.EXAMPLE.splitlines()[0] in shown
    assert command.EXAMPLE.startswith(f"routelab {name}")
    assert "--json" in shown


def test_a_wrong_flag_exits_with_2(capsys):
    assert main(["inspect", "x", "--nonsense"]) == 2
    assert "--nonsense" in capsys.readouterr().err


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from routelab.cli import main; main(['--help']);"
        "heavy = {'torch', 'numpy', 'pydantic', 'typer', 'rich', 'zarr', 'plotly'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "routelab", "--help"], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("Usage: routelab COMMAND")


@pytest.mark.parametrize("name", COMMANDS)
def test_loading_a_command_loads_no_torch(name):
    code = f"import sys, routelab.cli.{name}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
