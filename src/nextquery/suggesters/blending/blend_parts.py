"""The parts of a blend: what each holds likely, and all of them together.

Knows the trained model, the count models and their mixture; knows nothing of lists.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nextquery.inference.lists.specificity import Priors
from nextquery.records import ScoredQuery, Suggestion
from nextquery.suggesters.base import Completer, Suggester, Trained
from nextquery.suggesters.blending.mixture import Floats, Mixture


class Parts:
    """A trained model, the count models beside it, and the weights of all."""

    def __init__(
        self, trained: Trained[Any], members: Sequence[Suggester], mixture: Mixture
    ) -> None:
        self._members = tuple(members)
        self.mixture = mixture
        words = len(trained.model.vocabulary)
        self._unknown = float(np.log(words))
        self._priors = Priors(lambda texts: trained.score((), texts), words)

    def offers(self, queries: Sequence[str], n: int) -> list[list[Suggestion]]:
        """What each count model suggests after a session."""
        return [member.suggest(queries, n) for member in self._members]

    def completions(self, context: Sequence[str], prefix: str, n: int) -> list[Suggestion]:
        """How the count models finish what is typed."""
        able = (member for member in self._members if isinstance(member, Completer))
        return [each for member in able for each in member.complete(context, prefix, n)]

    def row(self, queries: Sequence[str]) -> int:
        """The row of weights of a session: who has anything to suggest."""
        return self.mixture.row(queries, [bool(offered) for offered in self.offers(queries, 1)])

    def logs(self, queries: Sequence[str], scored: Sequence[ScoredQuery]) -> Floats:
        """The log-likelihoods (parts, n) of queries that the trained model scored.

        A word that it does not know is one of many behind the unknown word, as in the priors.
        """
        own = [each.log_likelihood - self._unknown * len(each.unknown) for each in scored]
        texts = [each.text for each in scored]
        return np.array([own, *self._counted(queries, texts)])

    def log(self, queries: Sequence[str], row: int, scored: Sequence[ScoredQuery]) -> Floats:
        """The mixture's log-likelihoods (n,) of queries that the trained model scored."""
        return self.mixture.log(row, self.logs(queries, scored))

    def log_priors(self, texts: Sequence[str]) -> dict[str, float]:
        """The mixture's log-likelihood of each text without a session."""
        own = self._priors.of(texts)
        logs = np.array([[own[text] for text in texts], *self._counted((), texts)])
        return dict(zip(texts, self.mixture.log(self.row(()), logs).tolist(), strict=True))

    def _counted(self, queries: Sequence[str], texts: Sequence[str]) -> list[list[float]]:
        return [
            [each.log_likelihood for each in member.score(queries, texts)]
            for member in self._members
        ]
