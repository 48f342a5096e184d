"""Words of scripts that are written without spaces: Chinese, Japanese and Thai.

One function breaks a text into words (`break_words`, by BudouX's small models), another writes them
as people do (`join_words`). Everything between them sees words with spaces, as in other scripts.
"""

import re
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

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


@lru_cache(maxsize=65_536)
def _words(run: str) -> tuple[str, ...]:
    """The words of a run of letters; none of them breaks further by itself."""
    parts = [part for script in _KATAKANA.findall(run) for part in _parser(run).parse(script)]
    if len(parts) <= 1:
        return (run,)
    return tuple(word for part in parts for word in _words(part))


def _parser(run: str) -> Any:
    if _THAI_FOUND.search(run):
        return _load("thai")
    if _KANA_FOUND.search(run):
        return _load("japanese")
    return _load(_language_of_han(run))


def _language_of_han(run: str) -> str:
    """Whose characters these are: of simplified Chinese, of traditional, or of neither (`天気`)."""
    for language, encoding in (("simplified_chinese", "gb2312"), ("traditional_chinese", "big5")):
        with suppress(UnicodeEncodeError):
            run.encode(encoding)
            return language
    return "japanese"


@cache
def _load(language: str) -> Any:
    import budoux  # not loaded for logs of other scripts

    return getattr(budoux, f"load_default_{language}_parser")()
