"""Lists of suggestions, made in the same way by `nextquery suggest` and by the service."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from nextquery.inference.settings import DecodeConfig, Known
from nextquery.records import Suggestion
from nextquery.suggesters.base import Adjustable, Stateful, Suggester, UsefulnessJudge


@dataclass(frozen=True)
class SuggestOptions:
    """How a list of suggestions is to be made; None: as the model has it."""

    n: int = 5
    """How many at most."""
    diversity: float | None = None
    """0 takes the most likely, 1 the most unlike each other."""
    specificity: float | None = None
    """How much globally popular queries are held back."""
    known: Known | None = None
    """Whether queries that at least K users typed are preferred; count models have no others."""
    usefulness: float = 0.0
    """How often log P(useful) is added to a value, by a model that has learnt it."""


class ListMaker:
    """Makes lists with one model; what the model can do is looked up once."""

    def __init__(self, model: Suggester) -> None:
        self._stateful: Stateful[Any] | None = model if isinstance(model, Stateful) else None
        self._adjustable = cast("Adjustable", model)
        self._judges = isinstance(model, UsefulnessJudge) and model.judges_usefulness

    def lists(
        self,
        contexts: Sequence[Sequence[str]],
        options: SuggestOptions,
        config: DecodeConfig | None = None,
    ) -> list[list[Suggestion]]:
        """A list for each context; a model that decodes does so for all of them together.

        `config` replaces the model's own, for models that decode.
        """
        if self._stateful is None:
            return [
                self._adjustable.suggest(
                    context,
                    options.n,
                    specificity=options.specificity,
                    diversity=options.diversity or 0.0,
                    known=options.known,
                )
                for context in contexts
            ]
        config = config or self._stateful.config
        given = {name: getattr(options, name) for name in ("diversity", "specificity", "known")}
        changes = {name: value for name, value in given.items() if value is not None}
        if self._judges and options.usefulness:
            changes["usefulness"] = options.usefulness
        config = config.model_copy(update=changes) if changes else config
        states = self._stateful.encode_many(contexts)
        return self._stateful.suggest_after(states, options.n, config=config)
