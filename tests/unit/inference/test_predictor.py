"""A model with everything it can be asked for."""

import threading

from nextquery.inference.predictor import Predictor
from nextquery.inference.settings import DecodeConfig

CONFIG = DecodeConfig(beam=10, max_words=4, fold=False, specificity=0.0)


def texts(predictor: Predictor, n: int = 10) -> list[str]:
    state = predictor.encoder.encode(["w1 w2", "w3 zebra"])
    return [each.text for each in predictor.suggest_many([state], n, CONFIG)[0]]


def test_a_decoder_is_made_once_for_each_output_layer(predictor: Predictor) -> None:
    assert predictor.decoder("exact") is predictor.decoder("exact")
    assert predictor.decoder("exact") is not predictor.decoder("fast")


def test_as_many_as_asked_for_even_beyond_the_beam(predictor: Predictor) -> None:
    ten, more = texts(predictor, 10), texts(predictor, 25)
    assert len(ten) == 10
    assert len(more) == 25


def test_many_contexts_are_decoded_in_parts(predictor: Predictor, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    states = predictor.encoder.encode_many([["w1"], ["w2 w3"], ["zebra"], []])
    together = predictor.suggest_many(states, 5, CONFIG)
    few = 15 * len(predictor.model.vocabulary)  # one context of beam 10 at a time
    monkeypatch.setattr("nextquery.inference.predictor.MOST_LOGITS", few)
    parts = predictor.suggest_many(states, 5, CONFIG)
    assert [[each.text for each in row] for row in parts] == [
        [each.text for each in row] for row in together
    ]


def test_completing_nothing_is_suggesting(predictor: Predictor) -> None:
    state = predictor.encoder.encode(["w1 w2"])
    expected = predictor.suggest_many([state], 5, CONFIG)[0]
    assert predictor.complete(state, " ?", 5, CONFIG) == expected


def test_threads_get_the_same_lists_as_one_alone(predictor: Predictor) -> None:
    expected = texts(predictor)
    found: list[list[str]] = []

    def ask() -> None:
        for _ in range(5):
            found.append(texts(predictor))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 20
