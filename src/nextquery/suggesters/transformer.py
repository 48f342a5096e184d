"""A trained session Transformer as a suggester."""

from collections.abc import Sequence

from nextquery.artifacts import Artifact
from nextquery.inference.transformer import TransformerModel
from nextquery.model.settings import TRANSFORMER
from nextquery.normalise import normalise_query
from nextquery.records import QueryWeight
from nextquery.suggesters.neural import NeuralSuggester


class TransformerSuggester(NeuralSuggester):
    """A trained session Transformer, which explains itself by its attention."""

    kind = TRANSFORMER

    @staticmethod
    def open_model(artifact: Artifact) -> TransformerModel:
        """Open the network of a model folder."""
        return TransformerModel.from_pretrained(artifact)

    def explain(self, context: Sequence[str]) -> list[QueryWeight]:
        """How much the network attends to each query of the context, as shares of 1."""
        encoder = self._predictor.encoder
        texts = encoder.normalised(context)
        assert isinstance(self.model, TransformerModel)
        [shares] = self.model.attention([encoder.read_part(texts)])
        left = [0.0] * (len(texts) - len(shares)) + shares.tolist()
        weights = []
        for query in context:
            share = left.pop(0) if normalise_query(query) else 0.0
            weights.append(QueryWeight(query, share, share))
        return weights
