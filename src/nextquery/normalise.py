"""Normalisation of query text, shared by every engine and model, and word breaks for
scripts written without spaces (Chinese, Japanese, Thai).
"""

import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

More = ParamSpec("More")
Result = TypeVar("Result")
TextFunction = Callable[Concatenate[str, More], Result]


def cache_short_texts(
    entries: int, longest: int
) -> Callable[[TextFunction[More, Result]], TextFunction[More, Result]]:
    """Keep a function's last results for texts of at most `longest` characters.

    Longer ones are computed every time: whoever sends many of them must not fill the memory.

    >>> @cache_short_texts(entries=10, longest=3)
    ... def upper(text: str) -> str:
    ...     print("computed")
    ...     return text.upper()
    >>> upper("abc"), upper("abc"), upper("abcd"), upper("abcd")
    computed
    computed
    computed
    ('ABC', 'ABC', 'ABCD', 'ABCD')
    """

    def decorate(function: TextFunction[More, Result]) -> TextFunction[More, Result]:
        kept: TextFunction[More, Result] = lru_cache(entries)(function)

        @wraps(function)
        def cached(text: str, /, *args: More.args, **kwargs: More.kwargs) -> Result:
            if len(text) > longest:
                return function(text, *args, **kwargs)
            return kept(text, *args, **kwargs)

        return cached

    return decorate


_HAN = "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA, _THAI = "\u3040-\u30ff\u31f0-\u31ff", "\u0e00-\u0e7f"
_UNSPACED = f"{_HAN}{_KANA}{_THAI}"
_RUN = re.compile(f"[{_UNSPACED}]+")
_SPACE = re.compile(f"(?<=[{_UNSPACED}]) (?=[{_UNSPACED}])")
_KANA_FOUND, _THAI_FOUND = re.compile(f"[{_KANA}]"), re.compile(f"[{_THAI}]")
# A loan word in katakana ends where another script begins.
_KATAKANA = re.compile("[\u30a0-\u30ff\u31f0-\u31ff]+|[^\u30a0-\u30ff\u31f0-\u31ff]+")


def break_words(text: str) -> str:
    """The text with spaces between the words of scripts that are written without.

    Breaking again changes nothing.

    >>> break_words("便宜的北京酒店"), break_words("東京の安いホテル"), break_words("red shoes")
    ('便宜 的 北京 酒店', '東京の 安い ホテル', 'red shoes')
    """
    if text.isascii() or not _RUN.search(text):
        return text
    broken = _RUN.sub(lambda run: f" {' '.join(_words(run[0]))} ", text)
    return " ".join(broken.split())


def join_words(text: str) -> str:
    """The text as people write it: no space between words of such scripts.

    >>> join_words("便宜 的 北京 酒店"), join_words("iphone 手机 壳"), join_words("red shoes")
    ('便宜的北京酒店', 'iphone 手机壳', 'red shoes')
    """
    return text if text.isascii() else _SPACE.sub("", text)


@cache_short_texts(entries=16_384, longest=32)
def _words(run: str) -> tuple[str, ...]:
    """The words of a run of letters; none of them breaks further by itself."""
    parser = _load(_language(run))
    parts = [part for script in _KATAKANA.findall(run) for part in parser.parse(script)]
    if len(parts) <= 1:
        return (run,)
    return tuple(word for part in parts for word in _words(part))


def _language(run: str) -> str:
    """Han characters may be of simplified Chinese, of traditional, or of neither (`天気`)."""
    if _THAI_FOUND.search(run):
        return "thai"
    if _KANA_FOUND.search(run):
        return "japanese"
    for language, encoding in (("simplified_chinese", "gb2312"), ("traditional_chinese", "big5")):
        with suppress(UnicodeEncodeError):
            run.encode(encoding)
            return language
    return "japanese"


@cache
def _load(language: str) -> Any:
    import budoux  # not loaded for logs of other scripts

    return getattr(budoux, f"load_default_{language}_parser")()


_APOSTROPHES = re.compile(r"['’ʼ＇`]")
_ASCII_SEPARATORS = re.compile(r"[^a-z0-9]+")
_SYMBOLS = re.compile(r"(?<=[^\W\d_])[@$]+(?=[^\W\d_])(?![\w-]*\.\w)")
_READ_AS = str.maketrans("@$", "as")

# Unicode's Default_Ignorable_Code_Point, in addition to the format characters (category Cf).
_DRAWS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
_NON_JOINER = "\u200c"
_PERSIAN_NON_JOINER = re.compile("(?<=[\u0600-\u06ff])\u200c(?=[\u0600-\u06ff])")


def normalise_query(text: str, longest: int | None = None) -> str:
    """Return the query lower-cased, without punctuation, its words joined by single spaces.

    `longest` bounds the text of a stranger, in characters: normalising can make a character into
    18, and the rest is cut off before anything else is done with it.

    >>> normalise_query("Bj's Wholesale--Club"), normalise_query("zero\u200bwidth")
    ('bjs wholesale club', 'zerowidth')
    >>> normalise_query("\N{SQUARE KM CUBED} of water", longest=3)
    'km3'
    """
    text = text[:longest]
    if text.isascii():
        return _ASCII_SEPARATORS.sub(" ", _without_symbols(text.lower())).strip()
    composed = unicodedata.normalize("NFKC", _without_invisible(text))[:longest]
    lowered = unicodedata.normalize("NFKC", composed.lower())[:longest]
    kept = "".join(
        character if unicodedata.category(character)[0] in "LNM" else " "
        for character in _without_symbols(_without_invisible(lowered))
    )
    # What an apostrophe kept apart may compose now: the result must be a fixed point.
    return break_words(" ".join(unicodedata.normalize("NFKC", kept).split()))


def _without_symbols(text: str) -> str:
    """Without apostrophes, and with the letters that `@` and `$` stand for inside a word."""
    bare = _APOSTROPHES.sub("", text)
    if "@" not in bare and "$" not in bare:
        return bare
    return _SYMBOLS.sub(lambda match: match[0].translate(_READ_AS), bare)


def _without_invisible(text: str) -> str:
    """Without what draws nothing; a non-joiner inside a Persian word separates, as a blank does."""
    if _NON_JOINER in text:
        text = _PERSIAN_NON_JOINER.sub(" ", text)
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf")
    return _DRAWS_NOTHING.sub("", visible)
