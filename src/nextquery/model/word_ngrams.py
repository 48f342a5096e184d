"""What the character n-grams of a word add to its vector: the mean of their vectors.

Beyond the paper, after fastText. A word that the log hardly has is then known by its spelling, and
so is a word of the context that the vocabulary lacks: it is the unknown word's vector plus the mean
of its n-grams. Knows tables and gradients, nothing of the model.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nextquery.text.character_ngrams import Ints, NgramTable
from nextquery.text.vocabulary import Vocabulary


class WordNgrams(nn.Embedding):
    """A vector for every bucket of n-grams; zero at first, so that a model begins as without."""

    def __init__(self, vocabulary: Vocabulary, buckets: int, size: int) -> None:
        super().__init__(buckets, size)
        self.table = NgramTable.of(vocabulary.words, buckets)

    def reset_parameters(self) -> None:
        """Nothing is drawn: the other first weights are those of a model without n-grams."""
        nn.init.zeros_(self.weight)

    def means(self, words: Tensor, outside: NgramTable | None = None) -> Tensor:
        """What n-grams add to the vectors of words (...): (..., d_e).

        An id from V on is a word of `outside`.
        """
        table = self.table if outside is None else self.table.joined(outside)
        rows = table.take(words.cpu().numpy().ravel())
        found = self._means(rows, words.device)
        return found.view(*words.shape, self.embedding_dim)

    def all_means(self) -> Tensor:
        """What n-grams add to the vectors of the whole vocabulary (V, d_e)."""
        return self._means(self.table, self.weight.device)

    def _means(self, rows: NgramTable, device: torch.device) -> Tensor:
        if not len(rows.buckets):
            return self.weight.new_zeros((len(rows), self.embedding_dim))
        used, places = _distinct(rows.buckets, self.num_embeddings)
        # Each bucket's vector is read once, so that its gradient has one row.
        vectors = self(torch.from_numpy(used).to(device))
        return functional.embedding_bag(
            torch.from_numpy(places).to(device),
            vectors,
            torch.from_numpy(rows.starts[:-1]).to(device),
            mode="mean",
        )


def _distinct(buckets: Ints, number: int) -> tuple[Ints, Ints]:
    """The buckets that occur, ascending, and the place of each given one among them."""
    occurs = np.zeros(number, dtype=bool)
    occurs[buckets] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[buckets]
