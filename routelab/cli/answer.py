"""What does a command hand to the door? Facts for a program, text for a reader, an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object, alone on stdout, instead of text.")
]


class Answer(NamedTuple):
    """The result of a command; the door prints `facts` with --json and `text` without."""

    facts: dict[str, Any]
    text: tuple[RenderableType, ...] = ()
    code: int = 0
