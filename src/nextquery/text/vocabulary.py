"""The vocabulary: words to ids and back."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from nextquery.artifacts import write_text
from nextquery.errors import ArtifactError

PADDING = 0
END_OF_QUERY = 1
UNKNOWN = 2
SPECIAL = ("<pad>", "<eoq>", "<unk>")
"""Written with characters that no normalised word has, so that no word can be taken for one."""


class Vocabulary:
    """The known words, most frequent first, after the three special symbols."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words: tuple[str, ...] = (*SPECIAL, *words)
        self._ids = {word: index for index, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            raise ArtifactError("the vocabulary names a word twice")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """The id of a word, that of the unknown word if it is not known."""
        return self._ids.get(word, UNKNOWN)

    def encode(self, query: str) -> list[int]:
        """The ids of a normalised query's words and of the end-of-query symbol."""
        return [*(self.id(word) for word in query.split()), END_OF_QUERY]

    def decode(self, ids: Sequence[int]) -> str:
        """The words of `ids` up to the end of the query."""
        stop = ids.index(END_OF_QUERY) if END_OF_QUERY in ids else len(ids)
        return " ".join(self.words[index] for index in ids[:stop])

    def save(self, path: Path) -> None:
        """Write the words, one a line, without the special symbols."""
        write_text(path, "".join(f"{word}\n" for word in self.words[len(SPECIAL) :]))

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read what `save` wrote."""
        try:
            return cls(path.read_text(encoding="utf-8").splitlines())
        except UnicodeDecodeError:
            raise ArtifactError(f"{path.name}: not a text in UTF-8; make it again") from None
