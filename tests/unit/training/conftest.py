"""A few random sessions, and a process that trains alone."""

import numpy as np
import torch

from nextquery.text.corpus import EncodedSessions
from nextquery.text.vocabulary import END_OF_QUERY
from nextquery.training.distributed import Processes

ALONE = Processes(0, 1, torch.device("cpu"))
SIZE = 10


def random_sessions(count: int, seed: int) -> EncodedSessions:
    rng = np.random.default_rng(seed)
    queries = rng.integers(2, 5, count)
    lengths = rng.integers(2, 5, queries.sum())
    words = rng.integers(3, SIZE, lengths.sum()).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    words[starts[1:] - 1] = END_OF_QUERY
    bounds = np.concatenate([[0], np.cumsum(queries)])
    return EncodedSessions(words, starts, bounds[:-1], bounds[1:], 100 + np.arange(count), SIZE)
