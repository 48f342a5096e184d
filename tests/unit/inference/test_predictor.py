"""A model with everything it can be asked for."""

from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig

CONFIG = DecodeConfig(beam=10, max_words=4, fold=False, specificity=0.0)


def texts(predictor: Predictor, n: int = 10) -> list[str]:
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])
    return [each.text for each in predictor.suggest_many([state], n, CONFIG)[0]]


def test_a_decoder_is_made_once_for_each_output_layer(predictor: Predictor) -> None:
    assert predictor.decoder("exact") is predictor.decoder("exact")
    assert predictor.decoder("exact") is not predictor.decoder("fast")


def test_a_list_may_be_longer_than_the_beam(predictor: Predictor) -> None:
    assert len(texts(predictor, 25)) == 25


def test_many_contexts_are_decoded_in_parts(predictor: Predictor, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    states = predictor.encoder.encode_many([["w1"], ["w2 w3"], ["zebra"], []])
    together = predictor.suggest_many(states, 5, CONFIG)
    few = 15 * len(predictor.model.vocabulary)  # one context of beam 10 at a time
    monkeypatch.setattr("nextquery.inference.predictor.MOST_LOGITS", few)
    parts = predictor.suggest_many(states, 5, CONFIG)
    assert [[each.text for each in row] for row in parts] == [
        [each.text for each in row] for row in together
    ]
