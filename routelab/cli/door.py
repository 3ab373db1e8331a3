"""How does a command line become a call, and a Refusal one sentence and exit code 2?

The only place that prints results, and the only one that catches anything.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import typer

from routelab.cli.answer import Answer
from routelab.cli.consoles import out

REFUSED = 2
INTERRUPTED = 130

TORCH_WING = ("torch", "timm", "torchvision", "safetensors")


def run_command(name: str, words: Sequence[str]) -> int:
    """Run one command with its words; the exit code."""
    command = importlib.import_module(f"routelab.cli.{name}")
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(epilog=f"\b\nExample:\n  {command.EXAMPLE}")(_guarded(command.run))
    try:
        app(list(words), prog_name=f"routelab {name}")
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 1
    return 0


def _guarded(run: Callable[..., Answer]) -> Callable[..., None]:
    """The command with its answer printed and its refusals caught; same signature."""

    @functools.wraps(run)
    def guarded(*arguments: Any, **options: Any) -> None:
        as_json = bool(options.get("as_json", False))
        try:
            answer = run(*arguments, **options)
        except KeyboardInterrupt:
            print("interrupted; nothing that was committed is lost", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        except (ValueError, ModuleNotFoundError) as error:
            sentence = _sentence(error)
            if sentence is None:
                raise
            print(sentence, file=sys.stderr)
            if as_json:
                _print_json({"status": "refused", "error": sentence})
            raise typer.Exit(REFUSED) from None
        if as_json:
            _print_json(answer.facts)
        else:
            console = out()
            for part in answer.text:
                console.print(part, soft_wrap=isinstance(part, str))
        raise typer.Exit(answer.code)

    return guarded


def _sentence(error: Exception) -> str | None:
    """What a user reads of an error that a user can mend; None for a bug: its traceback stays."""
    from pydantic import ValidationError

    from routelab.records import Refusal

    if isinstance(error, Refusal):
        return " ".join(str(error).split())
    if isinstance(error, ValidationError):
        return _first_fault(error.errors()[0])
    if isinstance(error, ModuleNotFoundError) and error.name in TORCH_WING:
        return f"this command needs {error.name}; install it with: pip install 'routelab[torch]'"
    return None


def _first_fault(fault: Mapping[str, Any]) -> str:
    """The first fault of a value that pydantic refused, with the flag that it came from."""
    place = ".".join(str(part) for part in fault["loc"])
    says = fault["msg"].removeprefix("Value error, ")
    if not place:
        return says
    return f"--{place.replace('_', '-')} {fault['input']!r} is refused: {says}"


def _print_json(facts: Mapping[str, Any]) -> None:
    """One JSON object alone on stdout; what is not a number is null."""
    print(json.dumps(_finite(facts), ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    """The value with NaN and infinities as None, and tuples as lists."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
