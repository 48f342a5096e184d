"""What a service and its model's process say to each other survives the pipe between them."""

import pickle
from pathlib import Path

from nextquery.service.models.messages import Batch, Check, Failure, Opening
from nextquery.service.models.questions import SuggestOptions, SuggestQuestion


def test_messages_survive_the_pipe(served_models: dict[str, Path]) -> None:
    for message in (
        Opening(served_models["adjacency"], None, 10),
        Batch((SuggestQuestion(("red shoes",), SuggestOptions(n=1)),)),
        Check(),
        Failure("TypeError", ("a.py:1",)),
    ):
        assert pickle.loads(pickle.dumps(message)) == message
