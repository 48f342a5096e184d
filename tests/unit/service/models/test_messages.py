"""What a service and its model's process say to each other survives the pipe between them."""

import pickle
from pathlib import Path

from nextquery.service.engine import SuggestQuestion
from nextquery.service.worker import Batch, Check, Failure, Opening
from nextquery.suggesters.asking import SuggestOptions


def test_messages_survive_the_pipe(served_models: dict[str, Path]) -> None:
    for message in (
        Opening(served_models["adjacency"], None),
        Batch((SuggestQuestion(("red shoes",), SuggestOptions(n=1)),)),
        Check(),
        Failure("TypeError", ("a.py:1",)),
    ):
        assert pickle.loads(pickle.dumps(message)) == message
