"""Batches without padding: queries flattened and packed by length.

Sequences of different lengths are packed as the recurrences want them: sorted longest first, the
first symbols of all, then the second symbols of those that have one, and so on. The encoder's
queries, the sessions and the decoder's queries are packed each for itself; index arrays lead from
one to the other. Only the attention of the copying decoder is a grid, one row per session.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.text.corpus import EncodedSessions
from nextquery.text.vectors import NgramTable, running
from nextquery.text.vocabulary import END_OF_QUERY, UNKNOWN

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Packing:
    """The positions of the symbols of packed sequences."""

    sizes: list[int]
    """How many sequences have a first, second, ... symbol."""
    sequence: Ints
    """(total,): the sequence of each packed symbol, as numbered before sorting."""
    step: Ints
    """(total,): its place in the sequence, from 0."""
    order: Ints
    """(sequences,): the sequences, longest first."""
    last: Ints
    """(sequences,): the position of the last symbol of each sequence."""


@dataclass(frozen=True)
class CopyGrid:
    """Which words each decoder position may copy: one row per session, padded at the right."""

    sources: Ints
    """(sessions, sources): index of the word in the packed encoder states, -1 for none."""
    source_words: Ints
    """(sessions, sources): extended ids, -1 for none."""
    source_queries: Ints
    """(sessions, sources): the query that it is in."""
    targets: Ints
    """(sessions, targets): index into the packed decoder positions, -1 for none."""
    target_queries: Ints
    """(sessions, targets): the query that is predicted."""
    places: Ints
    """(positions,): the index of each packed decoder position in the flattened grid."""


@dataclass(frozen=True)
class Batch:
    """Some sessions, ready for the model. Words outside the vocabulary are the unknown word, but
    for those to encode if their character n-grams are known."""

    encoder_words: Ints
    """(symbols,): packed words of the queries to encode: all but the last of each session."""
    encoder_sizes: list[int]
    query_ends: Ints
    """(queries,): index of each query's last encoder state, in the packed order of sessions."""
    session_sizes: list[int]
    contexts: Ints
    """(queries,): the session state before each predicted query, longest query first: 0 is the
    state of an empty session, k > 0 the packed state k - 1."""
    decoder_words: Ints
    """(inputs,): packed words that the decoder reads: those with a successor."""
    decoder_sizes: list[int]
    """How many queries predict a first, second, ... symbol."""
    targets: Ints
    """(positions,): the symbols to predict, packed."""
    extended_targets: Ints
    """(positions,): the same with extended ids."""
    copies: CopyGrid
    sessions: int
    decoder_ends: Ints
    """(queries,): the position that predicts the end of each query, longest query first."""
    encoder_tokens: Ints
    """(symbols,): where each encoder symbol is when the sessions are sequences one after the other.
    A sequence begins with an end-of-query symbol and leaves out that of its last query."""
    decoder_tokens: Ints
    """(positions,): where the symbol is, in the same sequences, that each target comes after."""
    token_counts: Ints
    """(sessions,): the length of each sequence."""
    useful: NDArray[np.float32] | None
    """(queries,): how useful each predicted query was, in the same order, if that is learnt."""
    outside: NgramTable | None = None
    """The words outside the vocabulary that are encoded, by their character n-grams: the ids of
    `encoder_words` from V on. None: they are the unknown word."""


def epoch_batches(
    lengths: Ints, queries: Ints, batch_words: int, rng: np.random.Generator, window: int = 64
) -> list[Ints]:
    """The sessions of one epoch, shuffled, in batches of about `batch_words` symbols.

    Sessions are sorted by length within windows of about `window` batches, so that those of a
    batch are alike, and the batches of a window are shuffled again. A window of 1 sorts nothing.
    """
    order = rng.permutation(len(lengths))
    if window == 1:
        return list(cut(order, lengths, batch_words))
    window_of = (np.cumsum(lengths[order]) - 1) // (batch_words * window)
    batches: list[Ints] = []
    for members in _groups(order, window_of):
        alike = members[np.lexsort((members, lengths[members], queries[members]))]
        cuts = list(cut(alike, lengths, batch_words))
        batches += [cuts[index] for index in rng.permutation(len(cuts))]
    return batches


def cut(order: Ints, lengths: Ints, batch_words: int) -> Iterator[Ints]:
    """The sessions in the given order, in batches of about `batch_words` symbols."""
    batch_of = (np.cumsum(lengths[order]) - 1) // batch_words
    yield from _groups(order, batch_of)


def _groups(values: Ints, group_of: Ints) -> list[Ints]:
    return np.split(values, np.flatnonzero(np.diff(group_of)) + 1)


def pack(lengths: Ints) -> Packing:
    """Pack sequences of these lengths, which may be 0."""
    order = np.argsort(-lengths, kind="stable")
    steps = np.arange(lengths.max(initial=0))
    is_word = steps[:, None] < lengths[order][None, :]  # (steps, sequences)
    step, rank = np.nonzero(is_word)
    sizes = is_word.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    last = np.zeros(len(lengths), dtype=np.int64)
    last[order] = starts[lengths[order] - 1] + np.arange(len(lengths))
    return Packing(sizes.tolist(), order[rank], step, order, last)


def build_batch(corpus: EncodedSessions, members: Ints, *, last_only: bool = False) -> Batch:
    """The batch of the sessions `members`; with `last_only` only their last query is predicted."""
    counts = corpus.session_ends[members] - corpus.session_starts[members]
    longest_first = np.argsort(-counts, kind="stable")
    members, counts = members[longest_first], np.asarray(counts[longest_first])
    first = np.asarray(corpus.session_starts[members])
    session = np.repeat(np.arange(len(members)), counts)  # (queries,)
    position = running(counts)  # (queries,): 0 for a session's first
    query = first[session] + position
    starts = np.asarray(corpus.query_starts[query])
    lengths = np.asarray(corpus.query_starts[query + 1]) - starts
    is_last = position == counts[session] - 1
    encoded = np.flatnonzero(~is_last)
    predicted = np.flatnonzero(is_last) if last_only else np.arange(len(query))

    encoder = pack(lengths[encoded])
    sessions = pack(counts - 1)
    decoder = pack(lengths[predicted])
    state_starts = np.concatenate([[0], np.cumsum(sessions.sizes)]).astype(np.int64)
    by_place = np.lexsort((session[encoded], position[encoded]))  # packed order of sessions
    ordered = predicted[decoder.order]
    before = state_starts[np.maximum(position[ordered] - 1, 0)] + session[ordered]
    source = encoded[encoder.sequence]  # (symbols,): query of each packed encoder symbol
    target = predicted[decoder.sequence]  # (positions,)
    source_words = corpus.words[starts[source] + encoder.step].astype(np.int64)
    target_words = corpus.words[starts[target] + decoder.step].astype(np.int64)
    follows = decoder.step > 0
    inputs = corpus.words[starts[target[follows]] + decoder.step[follows] - 1].astype(np.int64)
    # Where each query begins in the sequences: after the start symbol and the queries before it.
    query_tokens = np.cumsum(lengths) - lengths
    size = corpus.vocabulary_size
    encoder_words, outside = _by_spelling(corpus, source_words)
    return Batch(
        encoder_words=encoder_words,
        encoder_sizes=encoder.sizes,
        query_ends=encoder.last[by_place],
        session_sizes=sessions.sizes,
        contexts=np.where(position[ordered] == 0, 0, before + 1),
        decoder_words=_known(inputs, size),
        decoder_sizes=decoder.sizes,
        targets=_known(target_words, size),
        extended_targets=target_words,
        copies=_copy_grid(
            (session[source], position[source], encoder.step, source_words),
            (session[target], position[target], decoder.step),
        ),
        sessions=len(members),
        outside=outside,
        encoder_tokens=query_tokens[source] + encoder.step + 1,
        decoder_tokens=query_tokens[target] + decoder.step,
        token_counts=np.bincount(session, weights=lengths).astype(np.int64),
        decoder_ends=decoder.last[decoder.order],
        useful=None if corpus.useful is None else np.asarray(corpus.useful[query[ordered]]),
    )


def _by_spelling(corpus: EncodedSessions, words: Ints) -> tuple[Ints, NgramTable | None]:
    """The words to encode: those outside numbered from V on if the corpus has their n-grams."""
    size = corpus.vocabulary_size
    if corpus.outside is None:
        return _known(words, size), None
    unknown = words >= size
    distinct, places = np.unique(words[unknown], return_inverse=True)
    words = words.copy()
    words[unknown] = size + places
    return words, corpus.outside.take(distinct - size)


def _copy_grid(source: tuple[Ints, Ints, Ints, Ints], target: tuple[Ints, Ints, Ints]) -> CopyGrid:
    session, query, step, words = source
    copied = np.flatnonzero(words != END_OF_QUERY)
    keep = copied[np.lexsort((step[copied], query[copied], session[copied]))]
    rows = int(target[0].max()) + 1
    sources = _grid(keep, session[keep], rows)
    order = np.lexsort((target[2], target[1], target[0]))
    targets = _grid(order, target[0][order], rows)
    places = np.empty(len(order), dtype=np.int64)
    is_target = targets.reshape(-1) >= 0
    places[targets.reshape(-1)[is_target]] = np.flatnonzero(is_target)
    return CopyGrid(
        sources=sources,
        source_words=np.where(sources >= 0, words[sources], -1),
        source_queries=np.where(sources >= 0, query[sources], 0),
        targets=targets,
        target_queries=np.where(targets >= 0, target[1][targets], 0),
        places=places,
    )


def _grid(values: Ints, row: Ints, rows: int) -> Ints:
    """Values with their ascending row numbers as a padded grid (rows, widest), -1 for none."""
    counts = np.bincount(row, minlength=rows)
    grid = np.full((rows, int(counts.max(initial=0))), -1, dtype=np.int64)
    grid[row, running(counts)] = values
    return grid


def _known(words: Ints, vocabulary_size: int) -> Ints:
    return np.where(words < vocabulary_size, words, UNKNOWN)
