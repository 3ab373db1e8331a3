"""What is an analysis? A question, the detail that it needs, and the function that answers it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from routelab import __version__
from routelab.records import Level, Result
from routelab.store import CaptureStore, require_level


@dataclass(frozen=True)
class Analysis:
    """One question to a store, and how it is answered.

    Attributes
    ----------
    name
        Name of the analysis and of its saved `Result`.
    question
        The question in plain words.
    level
        The least detail a store must hold for it.
    answer
        The function `(store, *, seed, permutations, ...) -> Result`.
    """

    name: str
    question: str
    level: Level
    answer: Callable[..., Result]

    def parameters(self, store: CaptureStore, **options: Any) -> dict[str, Any]:
        """Everything that decides the Result besides the store's arrays, as JSON values.

        `options` are keyword arguments of `answer`; its defaults fill the rest. The number of
        images is part of it, since a store may have grown, and so is the version of the formulas.
        """
        bound = inspect.signature(self.answer).bind(store, **options)
        bound.apply_defaults()
        chosen = {name: value for name, value in bound.arguments.items() if name != "store"}
        stamp = {"images": int(store.committed), "routelab": __version__}
        return dict(json.loads(json.dumps({**chosen, **stamp})))

    def run(self, store: CaptureStore, **options: Any) -> Result:
        """Answer the question and stamp the parameters on the Result.

        Raises
        ------
        Refusal
            The store lacks the level, or something else that the question needs.
        """
        require_level(store, self.level, self.name)
        result = self.answer(store, **options)
        return replace(result, name=self.name, parameters=self.parameters(store, **options))

    __call__ = run


def asks(question: str, *, level: Level) -> Callable[[Callable[..., Result]], Analysis]:
    """Decorator that makes the `run` function of a module the `Analysis` of the module's name."""

    def wrap(answer: Callable[..., Result]) -> Analysis:
        return Analysis(answer.__module__.rpartition(".")[2], question, level, answer)

    return wrap
