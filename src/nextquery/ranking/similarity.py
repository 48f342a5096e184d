"""Character similarity of queries, for the features of all rankers (no imports beyond Python)."""

import math
from collections import Counter
from collections.abc import Mapping


def trigrams(text: str) -> Counter[str]:
    """The runs of three characters of a text with a space before and after it, with their counts.

    >>> sorted(trigrams("cars"))
    [' ca', 'ars', 'car', 'rs ']
    """
    padded = f" {text} "
    return Counter(padded[start : start + 3] for start in range(len(padded) - 2))


def word_trigrams(text: str) -> Counter[str]:
    """The trigrams of the single words of a text.

    >>> sorted(word_trigrams("a car"))
    [' a ', ' ca', 'ar ', 'car']
    """
    counts: Counter[str] = Counter()
    for word in text.split():
        counts.update(trigrams(word))
    return counts


def letter_trigrams(text: str) -> frozenset[str]:
    """The different runs of three characters of a text; its characters if it is shorter.

    >>> sorted(letter_trigrams("cars"))
    ['ars', 'car']
    """
    runs = (text[start : start + 3] for start in range(len(text) - 2))
    return frozenset(runs) if len(text) >= 3 else frozenset(text)


def cosine(left: Mapping[str, int], right: Mapping[str, int]) -> float:
    """The cosine of two tables of counts; 0 where one is empty.

    >>> round(cosine(trigrams("car"), trigrams("cars")), 3)
    0.577
    """
    shared = sum(count * right.get(part, 0) for part, count in left.items())
    lengths = math.sqrt(sum(n * n for n in left.values()) * sum(n * n for n in right.values()))
    return shared / lengths if lengths else 0.0
