"""Near-duplicates among suggestions: reordered words, plurals, stop words."""

import re
from collections.abc import Iterable

from nextquery.normalise import cache_short_texts

AUTO, ENGLISH = "auto", "english"

_STOP_WORDS = {
    language: frozenset(" ".join(lines).split())
    for language, lines in {
        ENGLISH: (
            "a an and are at by can do does for from how i in is it my of on or the to was what",
            "when where which who why with you your",
        ),
        "german": ("der die das und ist im für mit von zu den dem ein eine auf wie was bei ohne",),
        "french": ("le la les des du de et est un une pour dans sur au aux avec comment en",),
        "spanish": ("el la los las de del y es un una para en con por como que al",),
        "italian": ("il lo la gli le di del della e un una per in con come che da",),
        "portuguese": ("o os as de do da dos das e um uma para em com como que no na",),
        "dutch": ("de het een en van voor met op in is hoe wat bij naar te",),
        "swedish": ("och att det som en ett för på med av till hur i är den",),
    }.items()
}
_FOREIGN = frozenset[str]().union(*_STOP_WORDS.values()) - _STOP_WORDS[ENGLISH]
_SCRIPTS = tuple(
    (re.compile(f"[{letters}]"), language)
    for letters, language in (
        ("\u0600-\u06ff", "arabic"),
        ("\u0400-\u04ff", "russian"),
        ("\u0370-\u03ff", "greek"),
        ("\u0530-\u058f", "armenian"),
        ("\u0900-\u097f", "hindi"),
        ("\u0b80-\u0bff", "tamil"),
        ("\u0590-\u05ff", "yiddish"),
    )
)


def fold(texts: Iterable[str], language: str = AUTO) -> list[int]:
    """The indices of those texts that are not near-copies of an earlier one."""
    seen: set[tuple[str, ...]] = set()
    first_indices = []
    for index, text in enumerate(texts):
        key = folding_key(text, language)
        if key not in seen:
            seen.add(key)
            first_indices.append(index)
    return first_indices


@cache_short_texts(entries=16384, longest=100)
def folding_key(text: str, language: str = AUTO) -> tuple[str, ...]:
    """What near-copies have in common: the singular of the words that carry meaning, in order.

    >>> folding_key("hotels in paris") == folding_key("paris hotel")
    True
    >>> folding_key("häuser", "german") == folding_key("haus", "german")
    True
    """
    words = text.split()
    language = detect_language(text) if language == AUTO else language
    stop_words = _STOP_WORDS.get(language, frozenset())
    content = [word for word in words if word not in stop_words] or words
    if language == ENGLISH:
        return tuple(sorted({_singular(word) for word in content}))
    import Stemmer  # not loaded where every text is English

    # A stemmer of its own for each call is cheap, and one for all threads would not be safe.
    stems: list[str] = Stemmer.Stemmer(language, 0).stemWords(content)
    return tuple(sorted(set(stems)))


def content_words(text: str) -> list[str]:
    """The words of a text that are not stop words of its language; all if there are no others."""
    words = text.split()
    idle = _STOP_WORDS.get(detect_language(text), frozenset())
    return [word for word in words if word not in idle] or words


def detect_language(text: str) -> str:
    """The language of a text by its script, or by stop words that only one language has.

    >>> [detect_language(text) for text in ("отели москвы", "schuhe für kinder", "paris")]
    ['russian', 'german', 'english']
    """
    if text.isascii() and _FOREIGN.isdisjoint(text.split()):
        return ENGLISH
    for script, language in _SCRIPTS:
        if script.search(text):
            return language
    words = set(text.split())
    counts = {language: len(words & idle) for language, idle in _STOP_WORDS.items()}
    best = max(counts.values())
    best_languages = [language for language, count in counts.items() if count == best]
    # One short word is not enough among plain letters: people write "de niro movies".
    fewest = 2 if text.isascii() else 1
    return best_languages[0] if best >= fewest and len(best_languages) == 1 else ENGLISH


def languages() -> tuple[str, ...]:
    """The languages that can be given."""
    import Stemmer

    return (AUTO, *sorted(Stemmer.algorithms()))


def _singular(word: str) -> str:
    """A crude singular: equal for the forms of most English nouns, which is all it is for.

    Snowball's English would also make one of `general` and `generally`.
    """
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
