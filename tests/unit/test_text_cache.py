import tracemalloc

from nextquery.inference.near_duplicates import folding_key
from nextquery.normalise import break_words, cache_short_texts


def test_only_short_texts_are_kept_and_only_the_last_of_them() -> None:
    computed: list[str] = []

    @cache_short_texts(entries=2, longest=3)
    def length(text: str, more: int = 0) -> int:
        computed.append(text)
        return len(text) + more

    assert [length("abc"), length("abc"), length("abc", 1), length("long"), length("long")] == [
        3, 3, 4, 4, 4,
    ]  # fmt: skip
    assert computed == ["abc", "abc", "long", "long"]
    length("d"), length("e"), length("abc")
    assert computed[-1] == "abc"


def test_long_texts_of_strangers_do_not_fill_the_memory() -> None:
    """200 texts of 500 different words: some 10 MB where every result is kept."""
    tracemalloc.start()
    try:
        for number in range(200):
            folding_key(" ".join(f"w{number}x{word}" for word in range(500)))
            break_words(
                "".join(chr(0x4E00 + (number * 97 + place) % 20_000) for place in range(500))
            )
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 4_000_000
