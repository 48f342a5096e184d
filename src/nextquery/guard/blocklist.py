"""The blocklist: words and phrases that no suggestion may contain, also in disguise."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby, islice
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

import numpy as np
import Stemmer

from nextquery.artifacts.files import read_plain_text
from nextquery.errors import BlocklistError
from nextquery.normalise import cache_short_texts, normalise_query

_ALSO_DRAWN_AS = {
    "a": "αɒꭤꬰᗩᗋ",
    "b": "вβᗹ",
    "c": "ςᑕᑢ",
    "d": "ᗫ",
    "e": "єεɚᶕᕮ",
    "g": "ᘜ",
    "h": "нɧꜧ",
    "i": "ᓰ",
    "j": "ᒎ",
    "k": "кκᖽ",
    "l": "ᒺɮ",
    "m": "мᘻ",
    "n": "ηꬼᑎᘉ",
    "o": "ɷᗝ",
    "p": "ƿꝥꝧᕵ",
    "q": "ᑫᕴ",
    "s": "ʃʅʆᶋᶘꭍƨᔕ",
    "t": "тτᖶ",
    "u": "μᵿᑘ",
    "v": "ꝩᐻ",
    "w": "ωꞷʬᗯᘺ",
    "x": "χꭔꭕ",
    "y": "уγᖻ",
    "z": "ʒʓᶚǯȝᘔ",
    "aa": "ꜳ",
    "ao": "ꜵ",
    "au": "ꜷ",
    "av": "ꜹꜻ",
    "ay": "ꜽ",
    "oo": "ꝏ",
    "tz": "ꜩ",
}
"""Likenesses that Unicode's table and the names do not give, or give to a small capital.

Letters of other scripts, phonetic letters with names of their own, Canadian syllabics, medieval
ligatures.
"""

_OF_LIVING_ALPHABETS = "ɔɛǝəŋþʊæœß"
"""Latin letters that look like others and are not read as them: people write with them.

Icelandic has `þig`, Ewe `hɔɔ`, Azerbaijani `şəxs`; read as English they would be blocked.
"""

_SMALL_CAPITAL = "LATIN LETTER SMALL CAPITAL "
_LATIN_BLOCKS = (
    range(0x0180, 0x02B0),
    range(0x1D00, 0x1DC0),
    range(0x1E00, 0x1F00),
    range(0x2C60, 0x2C80),
    range(0xA720, 0xA800),
    range(0xAB30, 0xAB70),
    range(0x1DF00, 0x1E000),
)
_NAMED_LETTER = re.compile(
    r"LATIN (?:EPIGRAPHIC )?(?:SMALL |CAPITAL )?LETTER (?:[A-Z-]+ )*?([A-Z])"
    r"(?: (?:WITH|ROTUNDA|BAR|LONGA)\b.*)?"
)


@cache
def look_alikes() -> Mapping[int, str]:
    """A table for `str.translate`: code points outside ASCII and the Latin letters they look like.

    Read from its file when it is first asked for.

    >>> "раураl".translate(look_alikes())  # five Cyrillic letters and one Latin
    'paypal'
    """
    table = {
        ord(character): letter
        for group in _groups()
        for letter in _letter_of(group)
        for character in group
        if len(character) == 1 and not character.isascii()
    }
    lowered = {
        ord(lower): letter
        for code, letter in table.items()
        if len(lower := chr(code).lower()) == 1 and not lower.isascii()
    }
    also = {ord(c): letter for letter, letters in _ALSO_DRAWN_AS.items() for c in letters}
    return _named_letters() | lowered | table | also


def _named_letters() -> dict[int, str]:
    """Latin letters by the letter in their names: turned, hooked, stroked, insular, ..."""
    table: dict[int, str] = {}
    for code in (code for block in _LATIN_BLOCKS for code in block):
        match = _NAMED_LETTER.fullmatch(unicodedata.name(chr(code), ""))
        if match is not None and chr(code).lower() not in _OF_LIVING_ALPHABETS:
            table[code] = match[1].lower()
    return table


def _groups() -> Iterable[set[str]]:
    """Sets of characters (some of two letters, such as `rn` for `m`) that look like each other."""
    text = (files("confusable_homoglyphs") / "confusables.json").read_text(encoding="utf-8")
    group_of: dict[str, set[str]] = {}
    for character, look_alikes in json.loads(text).items():
        joined = {character}
        for name in (character, *(other["c"] for other in look_alikes)):
            joined |= group_of.get(name, {name})
        for name in joined:
            group_of[name] = joined
    return {id(group): group for group in group_of.values()}.values()


def _letter_of(group: Iterable[str]) -> list[str]:
    """The Latin letter that a group looks like, if it does; small letters before capitals."""
    names = [(name.isupper(), name.lower()) for name in map(_bare, group)]
    letters = sorted(pair for pair in names if len(pair[1]) == 1 and "a" <= pair[1] <= "z")
    return [letters[0][1]] if letters else []


def _bare(name: str) -> str:
    """A name of the table without marks; a small capital as its letter."""
    spelled = unicodedata.name(name, "") if len(name) == 1 else ""
    if spelled.startswith(_SMALL_CAPITAL):
        return spelled.removeprefix(_SMALL_CAPITAL).lower()
    decomposed = unicodedata.normalize("NFKD", name)
    return "".join(c for c in decomposed if unicodedata.category(c) not in ("Mn", "Me"))


LONG_WORD = 5
"""In words of this many letters doubling one is a disguise; in shorter ones tripling one is.

`shoot` and `shot` are two words, `shooot` is not one.
"""

_LEET = str.maketrans("0123456789", "oizeasgtbg")
_MERGED = str.maketrans("i", "l")
_REPEATED = re.compile(r"(.)\1+")
_TATWEEL = 0x0640
"""Draws an Arabic word out and means nothing."""
_FINAL_CONSONANTS = range(0x11A8, 0x11C3)


class Reading(NamedTuple):
    """A word, and what it is compared by.

    >>> read_letters("baadwoords").squeezed, read_letters("baadwoords").stem
    ('badwords', 'badword')
    """

    letters: str
    merged: str
    """With `l` for every `i`."""
    squeezed: str
    """With every run of one letter as that letter, then merged: `public` is not `pubic`.

    Of a number, like `coarse`, what it would read as next to letters.
    """
    stem: str
    """Without its English inflection, every run as one letter."""
    coarse: str
    """Merged, then squeezed: equal wherever any of the other forms is, but for inflections."""


@cache_short_texts(entries=16384, longest=64)
def read_word(word: str) -> Reading:
    """The reading of a word of a normalised query."""
    return read_letters(letters(word))


def read_letters(word: str) -> Reading:
    """The reading of a word that `letters` has read, or of several joined."""
    once = _REPEATED.sub(r"\1", word.translate(_LEET)).translate(_MERGED)
    base = _REPEATED.sub(r"\1", stem(word))
    return Reading(word, merged(word), once, base, _REPEATED.sub(r"\1", once))


def read_many(words: Sequence[str]) -> list[Reading]:
    """What `read_letters` says of each word, much quicker for a long list.

    >>> read_many(["baadwoords", "455"]) == [read_letters("baadwoords"), read_letters("455")]
    True
    """
    if not words:
        return []
    text = "\n".join(words)
    once = _squeezed(text.translate(_LEET)).translate(_MERGED)
    base = _squeezed("\n".join(_stemmer().stemWords(list(words))))
    columns = (merged(text), once, base, _squeezed(once))
    return list(
        map(Reading._make, zip(words, *(column.split("\n") for column in columns), strict=True))
    )


def _squeezed(text: str) -> str:
    """Every run of one character as that character; lines stay apart."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    first = np.ones(len(codes), np.bool_)
    first[1:] = (codes[1:] != codes[:-1]) | (codes[1:] == ord("\n"))
    return codes[first].tobytes().decode("utf-32-le")


def read_text(text: str) -> list[Reading]:
    """The readings of the words of any text.

    >>> [word.letters for word in read_text("B4d w\u200bö\u200brd")]
    ['bad', 'word']
    """
    return [read for read in map(read_word, normalise_query(text).split()) if read.letters]


def letters(word: str) -> str:
    """A word of a normalised query as it reads to the eye.

    >>> letters("bädw0rd"), letters("bаdwоrd"), letters("455")
    ('badword', 'badword', '455')
    """
    return leet(word if word.isascii() else _plain(word))


def leet(word: str) -> str:
    """Digits read as letters, except in a word of digits alone: `455` is a number."""
    return word if word.isalpha() or word.isdigit() else word.translate(_LEET)


def _plain(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word)
    bare = "".join(c for c in decomposed if unicodedata.category(c)[0] in "LN")
    return bare if bare.isascii() else bare.translate(look_alikes()).translate(_other_scripts())


@cache
def _other_scripts() -> dict[int, str | None]:
    """What is not drawn in Arabic, and Korean consonants by themselves, wherever they stand.

    A syllable ends in other code points than it begins with; typed letter by letter it does not.
    """
    table: dict[int, str | None] = {_TATWEEL: None}
    for code in _FINAL_CONSONANTS:
        parts = unicodedata.name(chr(code)).removeprefix("HANGUL JONGSEONG ").split("-")
        table[code] = "".join(unicodedata.lookup(f"HANGUL CHOSEONG {part}") for part in parts)
    return table


def merged(word: str) -> str:
    """The word with `l` for every `i`, which cannot be told apart in all typefaces."""
    return word.translate(_MERGED)


def stem(word: str) -> str:
    """The word without its English inflection, by the Snowball stemmer.

    >>> stem("badwords"), stem("badwording")
    ('badword', 'badword')
    """
    stemmed: str = _stemmer().stemWord(word)
    return stemmed


def _stemmer() -> Any:
    """A new stemmer, which takes a fifth of a microsecond: one is not safe to share by threads."""
    return Stemmer.Stemmer("english", 0)


def draws_out(word: str, plain: str) -> bool:
    """Whether `word` is `plain` with letters repeated, given that both have the same squeezed form.

    A number has the squeezed form of what it reads as, but is drawn out by nothing.

    >>> draws_out("shooot", "shot"), draws_out("shoot", "shot"), draws_out("refer", "reefer")
    (True, False, False)
    >>> draws_out("g", "69")
    False
    """
    runs, plain_runs = _runs(word), _runs(plain)
    same = [merged(letter) for letter, _ in runs] == [merged(letter) for letter, _ in plain_runs]
    return same and _runs_drawn_out(runs, plain_runs)


def inflects(word: str, plain: str) -> bool:
    """Whether `word` continues where `plain` ends, given that both have the same stem.

    A final `e` or `y` may change, the last letter be doubled.

    >>> inflects("badwords", "badword"), inflects("riding", "ride"), inflects("test", "teste")
    (True, True, False)
    """
    stem_runs = _runs(plain[:-1] if plain.endswith(("e", "y")) else plain)
    begun = _runs(word)[: len(stem_runs)]
    same = [letter for letter, _ in begun] == [letter for letter, _ in stem_runs]
    return len(word) >= len(plain) and same and _runs_drawn_out(begun[:-1], stem_runs[:-1])


def _runs_drawn_out(runs: list[tuple[str, int]], plain: list[tuple[str, int]]) -> bool:
    enough = 2 if len(runs) >= LONG_WORD else 3
    return all(
        run == length or run >= max(enough, length)
        for (_, run), (_, length) in zip(runs, plain, strict=True)
    )


def _runs(word: str) -> list[tuple[str, int]]:
    """The runs of one letter: the letter and how many."""
    return [(letter, len(list(same))) for letter, same in groupby(word)]


MASKED_LENGTH = 4
"""Masked letters (`f*ck`, normalised to `f ck`) are read into words of at least this length."""

CHUNK = 500
"""Entries that are read at once; other threads get their turn between two chunks."""
MOST_BYTES = 1 << 26
"""A larger file is not a blocklist."""

_INFLECTIONS = ("s", "es", "ed", "ing", "er", "ers")
_LONGEST_INFLECTION = max(map(len, _INFLECTIONS))
_EDGE = 5


class Blocklist:
    """An immutable set of blocked words and phrases, and of blocked whole queries (`="search"`).

    >>> Blocklist(["badword"]).blocks("cheap b4d-words online")
    True
    >>> blocklist = Blocklist(['="search"'])
    >>> blocklist.blocks("S3arch"), blocklist.blocks("job search")
    (True, False)
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self.entries: set[str] = set()
        """What it was made of, as given."""
        self._whole: set[tuple[str, ...]] = set()
        """Whole queries, as the merged forms of their words."""
        self._phrases: set[tuple[str, ...]] = set()
        self._merged: set[str] = set()
        self._maskable: set[str] = set()
        self._drawn: dict[str, str] = {}
        """Entries by their squeezed form, between line ends: texts cost the collector nothing."""
        self._stems: dict[str, str] = {}
        self._last_stems: set[str] = set()
        self._heads: set[str] = set()
        self._tails: set[str] = set()
        self._longest = 0
        self._most_words = 0
        self._count = 0
        self._take(entries)

    def extended(self, entries: Iterable[str]) -> "Blocklist":
        """A list with more entries; much quicker than reading all of them again."""
        longer = Blocklist()
        for name, value in vars(self).items():
            setattr(longer, name, value if isinstance(value, int) else value.copy())
        longer._take(entries)
        return longer

    def _take(self, entries: Iterable[str]) -> None:
        seen: set[tuple[str, ...]] = set()
        begins: set[str] = set()
        ends: set[str] = set()
        remaining = iter(entries)
        while chunk := list(islice(remaining, CHUNK)):
            self.entries.update(chunk)
            for query in filter(is_whole_query, chunk):
                self._whole.add(tuple(word.merged for word in read_text(query)))
            contained = [entry for entry in chunk if not is_whole_query(entry)]
            for phrase, word in _read_entries(contained, seen):
                self._add(phrase, word)
                begins.add(word.coarse[:_EDGE])
                ends.add(word.coarse[-_EDGE:])
        self._whole.discard(())
        self._count += len(seen)
        self._heads.update(begin[:length] for begin in begins for length in range(1, _EDGE + 1))
        self._tails |= _tails(ends)

    def _add(self, phrase: Sequence[Reading], word: Reading) -> None:
        """Add an entry: its words, and the words joined."""
        self._merged.add(word.merged)
        self._longest = max(self._longest, len(word.letters))
        for index, key in ((self._drawn, word.squeezed), (self._stems, word.stem)):
            index[key] = f"{index[key]}\n{word.letters}" if key in index else word.letters
        if len(phrase) > 1:
            self._phrases.add(tuple(word.stem for word in phrase))
            self._last_stems.add(phrase[-1].stem)
            self._most_words = max(self._most_words, len(phrase))
        elif len(word.merged) >= MASKED_LENGTH:
            self._maskable.add(word.merged)

    def __len__(self) -> int:
        return self._count + len(self._whole)

    def blocks(self, text: str) -> bool:
        """Whether `text` is a blocked query or contains a blocked word or phrase."""
        if not len(self):
            return False
        words = read_text(text)
        if self._whole and tuple(word.merged for word in words) in self._whole:
            return True
        return any(self._ends_blocked(words[: end + 1]) for end in range(len(words)))

    def is_entry(self, word: Reading) -> bool:
        """Whether a word is blocked by itself, whatever comes before it."""
        if word.merged in self._merged:
            return True
        if word.letters.isdigit():  # 455 is a number
            return False
        drawn, stems = self._drawn.get(word.squeezed), self._stems.get(word.stem)
        if drawn is None and stems is None:  # nearly every word
            return False
        return any(
            draws_out(word.letters, entry) for entry in (drawn or "").split("\n") if entry
        ) or any(inflects(word.letters, entry) for entry in (stems or "").split("\n") if entry)

    def may_end(self, word: Reading) -> bool:
        """Whether a word can be the last of several that are blocked together."""
        return word.coarse[-_EDGE:] in self._tails or word.stem in self._last_stems

    def blocks_last(self, words: Sequence[str]) -> bool:
        """Whether the last of `words` is blocked or completes something blocked."""
        return self._ends_blocked([read for read in map(read_word, words) if read.letters])

    def _ends_blocked(self, words: Sequence[Reading]) -> bool:
        return bool(words) and (
            self.is_entry(words[-1]) or self._ends_phrase(words) or self._ends_cut(words)
        )

    def _ends_phrase(self, words: Sequence[Reading]) -> bool:
        """Whether the last words are those of a blocked phrase, each inflected or not."""
        if words[-1].stem not in self._last_stems:
            return False
        stems = tuple(word.stem for word in words[-self._most_words :])
        return any(stems[start:] in self._phrases for start in range(len(stems) - 1))

    def _ends_cut(self, words: Sequence[Reading]) -> bool:
        """Whether the last two or more words are the pieces of an entry."""
        if len(words) < 2 or words[-1].coarse[-_EDGE:] not in self._tails:
            return False
        return self._is_masked(*words[-2:]) or any(
            self.is_entry(read_letters(leet(pieces))) for pieces in self._pieces(words)
        )

    def _pieces(self, words: Sequence[Reading]) -> Iterator[str]:
        """The last two, three, ... words as one, if an entry begins so and is as long."""
        pieces, length = words[-1].letters, len(words[-1].coarse)
        for word in reversed(words[:-1]):
            length += len(word.coarse)
            # An inflection adds letters, and one may be lost at every join.
            if length > self._longest + _LONGEST_INFLECTION + len(words):
                return
            pieces = word.letters + pieces
            if word.coarse[:_EDGE] in self._heads:
                yield pieces

    def _is_masked(self, first: Reading, second: Reading) -> bool:
        """Whether two words are an entry without one of its inner letters."""
        if first.coarse[:_EDGE] not in self._heads:
            return False
        before, after = first.merged, second.merged
        return any(before + letter + after in self._maskable for letter in ascii_lowercase)


def _read_entries(
    entries: Sequence[str], seen: set[tuple[str, ...]]
) -> list[tuple[list[Reading], Reading]]:
    """Entries that were not seen yet: the words of each, and all of them as one."""
    phrases = []
    for entry in entries:
        phrase = tuple(filter(None, map(letters, normalise_query(entry).split())))
        if phrase and phrase not in seen:
            seen.add(phrase)
            phrases.append(phrase)
    words = iter(read_many([word for phrase in phrases for word in phrase]))
    joined = read_many(["".join(phrase) for phrase in phrases])
    return [
        (list(islice(words, len(phrase))), word)
        for phrase, word in zip(phrases, joined, strict=True)
    ]


def _tails(plain: set[str]) -> set[str]:
    """What the last piece of a word that is cut up, inflected or not, can end with."""
    ends = set(plain)
    bare = {end.removesuffix("e") for end in plain}
    for inflection in map(merged, _INFLECTIONS):
        # As much of the word as can be in an end, and a letter that both may share.
        stumps = {end[len(inflection) - _EDGE - 1 :] for end in bare}
        ends |= {(s.removesuffix(inflection[0]) + inflection)[-_EDGE:] for s in stumps}
    return {end[start:] for end in ends for start in range(len(end))}


def is_whole_query(entry: str) -> bool:
    """Whether an entry blocks only the query that is exactly it: `="search"`."""
    return entry.lstrip().startswith("=")


def canonical_entry(entry: str) -> str:
    """An entry as it is written into a file: normalised, a whole query between quotes.

    >>> canonical_entry(" Red  Shoes"), canonical_entry("= Search")
    ('red shoes', '="search"')
    """
    words = normalise_query(entry)
    return f'="{words}"' if is_whole_query(entry) else words


def read_blocklist(path: Path, previous: Blocklist | None = None) -> Blocklist:
    """Read a blocklist file; one that is missing, unreadable or empty is an error.

    Where a few lines were added to the file of `previous`, only these are read.
    """
    entries = read_entries(path)
    if previous is not None and len(previous):
        added = [entry for entry in entries if entry not in previous.entries]
        unchanged = len(set(entries)) - len(set(added)) == len(previous.entries)
        if unchanged and len(added) < len(entries) // 4:
            return previous.extended(added)
    blocklist = Blocklist(entries)
    if not blocklist:
        raise BlocklistError(
            f"{path}: has no entry; write one word or phrase per line, or leave the blocklist out"
        )
    return blocklist


def read_entries(path: Path) -> list[str]:
    """The words and phrases of a blocklist file, without its comments and blank lines."""
    return [entry for line in read_lines(path) if (entry := entry_of(line))]


def read_lines(path: Path) -> list[str]:
    """The lines of a blocklist file."""
    try:
        return read_plain_text(path, "utf-8-sig", MOST_BYTES).splitlines()
    except OSError as error:
        raise BlocklistError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BlocklistError(f"{path}: not UTF-8 text ({error.reason})") from None


def entry_of(line: str) -> str:
    """What a line of a file blocks; empty for a comment or a blank line."""
    return line.split("#", 1)[0].strip()
