"""Fitting adjacency: the pairs that `prepare` counted, numbered."""

from nextquery.suggesters.adjacency import Adjacency, AdjacencySettings
from nextquery.suggesters.fitting.background import count_background, frequency_ranks
from nextquery.suggesters.fitting.sequences import BackgroundLog
from nextquery.suggesters.followers import Followers


def fit_adjacency(log: BackgroundLog, settings: AdjacencySettings) -> Adjacency:
    """Number the pairs that `prepare` counted."""
    background = count_background(log.data)
    pairs = log.data.counts("followers").select("anchor", "next", "count").collect()
    followers = Followers.from_counts(
        background.ids(pairs["anchor"].to_list()),
        background.ids(pairs["next"].to_list()),
        pairs["count"].to_numpy(),
        len(background.counts),
        frequency_ranks(background),
    )
    return Adjacency(settings, background, followers)
