"""What is wrong with a configuration, in one sentence that names the key and the nearest one?"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from routelab.records import Refusal

Model = TypeVar("Model", bound=BaseModel)


def accepted(model: type[Model], values: Mapping[str, Any], source: str) -> Model:
    """The validated value.

    Raises
    ------
    Refusal
        The first fault: a misspelt key with the nearest one, or a value with what it should be.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults = error.errors()
        unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
        fault = unknown[0] if unknown else faults[0]
        names = [str(part) for part in fault["loc"]]
        if unknown:
            raise Refusal(unknown_key(model, names, source)) from error
        says = fault["msg"].removeprefix("Value error, ")
        if not names or fault["type"] == "value_error":
            raise Refusal(f"{source}: {says}") from error
        raise Refusal(
            f"{source}: {'.'.join(names)} = {fault['input']!r} is refused: {says}"
        ) from error


def unknown_key(model: type[BaseModel], names: list[str], source: str) -> str:
    """The sentence for a key that does not exist: siblings first, then any key of that likeness."""
    wrong, known = names[-1], list(_paths(model, ()))
    beside = [path[-1] for path in known if list(path[:-1]) == names[:-1]]
    near = difflib.get_close_matches(wrong, beside, n=1, cutoff=0.5)
    if not near:
        dotted = {path[-1]: ".".join(path) for path in reversed(known)}
        near = [dotted[m] for m in difflib.get_close_matches(wrong, dotted, n=1, cutoff=0.6)]
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(beside)}"
    return f"{source}: there is no key {'.'.join(names)!r}; {hint}"


def _paths(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every key of a model and of the models inside it, as paths."""
    for name, field in model.model_fields.items():
        yield (*above, name)
        for inner in _models(field.annotation):
            yield from _paths(inner, (*above, name))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models(part)
