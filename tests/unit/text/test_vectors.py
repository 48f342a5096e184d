"""Vector files of every format, and what is made of them."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from nextquery.errors import InputError
from nextquery.text.vectors import (
    MOST_CHARACTERS,
    NgramTable,
    WordVectors,
    bucket,
    encode_words,
    encoder_identity,
    import_encoder,
    ngrams,
    read_word_vectors,
)
from nextquery.text.vocabulary import SPECIAL

GLOVE = "the 0.5 -1 2\nRome 1 0 0.25\nshoes 0 3 1e-1\nrome 9 9 9\n"
WORD2VEC = f"4 3\n{GLOVE}"
WANTED = {"rome", "shoes", "boots"}


@pytest.mark.parametrize("text", [GLOVE, WORD2VEC], ids=["glove", "word2vec"])
@pytest.mark.parametrize("name", ["vectors.txt", "vectors.vec.gz"])
def test_text_files_give_the_wanted_words(tmp_path: Path, text: str, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    result = read_word_vectors(path, WANTED)
    assert result.words == ("rome", "shoes")  # the first of a word counts
    assert result.vectors.tolist() == [[1.0, 0.0, 0.25], [0.0, 3.0, pytest.approx(0.1)]]


@pytest.mark.parametrize("header", ["", "9 3\n"], ids=["glove", "word2vec"])
def test_words_with_spaces_are_read_up_to_their_numbers(tmp_path: Path, header: str) -> None:
    """As in glove.840B; with `--queries`, texts of several words are wanted, too."""
    odd = ". . . 1 1 1\nat name@domain.com 2 2 2\nNew York 3 -.5 1e-1 \n\u00a0 4 4 4\n  5 5 5\n"
    path = tmp_path / "vectors.txt"
    for text in (GLOVE + odd, odd + GLOVE):
        path.write_text(header + text, encoding="utf-8")
        result = read_word_vectors(path, {*WANTED, "new york"})
        assert set(result.words) == {"rome", "shoes", "new york"}
        rows = dict(zip(result.words, result.vectors.tolist(), strict=True))
        assert rows["new york"] == [3.0, -0.5, pytest.approx(0.1)]
        assert rows["rome"] == [1.0, 0.0, 0.25]


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    made = WordVectors(("rome", "été", "boots"), np.arange(6, dtype=np.float32).reshape(3, 2))
    made.save(tmp_path / "new" / "vectors.safetensors")
    result = read_word_vectors(tmp_path / "new" / "vectors.safetensors", {"été", "boots"})
    assert result.words == ("été", "boots")
    assert result.vectors.tolist() == [[2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"rome 1 2\nshoes 1\n", "line 2: 1 numbers where the first line has 2"),
        (b"rome 1 2\nshoes 1 2 3\n", "line 2: 3 numbers where the first line has 2"),
        (b"2 3\nrome 1 2\n", "line 2: 2 numbers where the first line has 3"),
        (b"2 2\nrome 1 -2 1e-3\n", "line 2: 3 numbers where the first line has 2"),
        (b"rome 1 two\n", "line 1: not all of its values are numbers"),
        (b"rome 1 nan\n", "not finite"),
        (b"paris 1 2\n", "no vector of any word"),
        (b"rome\n", "line 1: 0 numbers"),
        (b"rome \xff\xfe 1\n", "cannot be read as text"),
    ],
)
def test_bad_text_files_are_refused_by_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "vectors.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_word_vectors(path, WANTED)


def test_bad_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_word_vectors(tmp_path / "none.txt", WANTED)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"no header")
    with pytest.raises(InputError, match="not a file of word vectors"):
        read_word_vectors(broken, WANTED)
    save_file({"vectors": np.zeros((2, 2), np.float32)}, tmp_path / "nameless.safetensors")
    with pytest.raises(InputError, match="words"):
        read_word_vectors(tmp_path / "nameless.safetensors", WANTED)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(GLOVE.encode())[:-9])
    with pytest.raises(InputError, match="cannot be read as text"):
        read_word_vectors(tmp_path / "cut.gz", {"zebra"})


def test_reduction_keeps_the_distances_that_matter() -> None:
    """A plane in ten dimensions, a little noise around it."""
    rng = np.random.default_rng(1)
    plane = rng.normal(size=(50, 2)) * (5, 3)
    turned = plane @ np.linalg.qr(rng.normal(size=(10, 10)))[0][:2] + 7.0
    noisy = (turned + 0.01 * rng.normal(size=turned.shape)).astype(np.float32)
    reduced = WordVectors(tuple(map(str, range(50))), noisy).reduced(2).vectors
    assert reduced.shape == (50, 2)
    before = np.linalg.norm(plane[:, None] - plane[None], axis=2)
    after = np.linalg.norm(reduced[:, None] - reduced[None], axis=2)
    assert np.abs(before - after).max() < 0.1
    assert reduced[:, 0].std() > reduced[:, 1].std()


def test_fewer_numbers_than_asked_for_are_all_kept() -> None:
    vectors = WordVectors(("a", "b", "c"), np.eye(3, 2, dtype=np.float32))
    assert vectors.reduced(8).size == 2


def test_an_encoder_sees_all_words_in_parts() -> None:
    seen: list[int] = []

    def encode(texts: list[str]) -> list[list[float]]:
        seen.append(len(texts))
        return [[float(text), 1.0] for text in texts]

    result = encode_words([str(number) for number in range(600)], encode)  # type: ignore[arg-type]
    assert result.vectors[:, 0].tolist() == list(range(600))
    assert len(seen) > 1


def test_an_encoder_with_too_few_vectors_is_refused() -> None:
    with pytest.raises(InputError, match="3 words need a matrix of that many rows"):
        encode_words(["a", "b", "c"], lambda texts: [[1.0, 2.0]])


FAULTY = {
    "import": ("raise RuntimeError('no weights')", "RuntimeError: no weights"),
    "exit": ("import sys; sys.exit('no weights')", "SystemExit: no weights"),
    "syntax": ("def encode(:", "SyntaxError"),
    "no function": ("encode = 7", "not a function, but a int"),
    "raises": ("def encode(texts): raise KeyError('x')", "failed .KeyError: 'x'"),
    "nothing": ("def encode(texts): return None", "no numbers|gives"),
    "texts": ("def encode(texts): return [['a'] for text in texts]", "gives no numbers"),
    "ragged": ("def encode(texts): return [[1.0] * len(text) for text in texts]", "no numbers"),
    "one for all": ("def encode(texts): return [1.0, 2.0]", r"gives \(2,\) for 2 texts"),
    "too few": ("def encode(texts): return [[1.0, 2.0]]", r"gives \(1, 2\) for 2 texts"),
    "no size": ("def encode(texts): return [[] for text in texts]", r"gives \(2, 0\)"),
    "infinite": ("def encode(texts): return [[1e300] for text in texts]", "not finite"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_encoder_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    source, message = FAULTY[fault]
    module = f"faulty_{fault.replace(' ', '_')}"
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=rf"`encoder` {module}:encode: .*({message})"):
        import_encoder(f"{module}:encode")(["a", "abc"])


def test_an_encoder_that_changes_its_size_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "changing.py").write_text(
        "def encode(texts): return [[1.0] * len(texts)] * len(texts)"
    )
    monkeypatch.syspath_prepend(tmp_path)
    encoder = import_encoder("changing:encode")
    encoder(["a", "b"])
    with pytest.raises(InputError, match="vectors of 2 and of 3 numbers"):
        encoder(["a", "b", "c"])


def test_an_encoder_is_recognised_by_its_source_and_its_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weighted.py").write_text(
        "def encode(texts): return [[len(text)] for text in texts]"
    )
    monkeypatch.syspath_prepend(tmp_path)
    encoder = import_encoder("weighted:encode")
    result = [
        encoder_identity("weighted:encode", encoder, texts) for texts in (["a"], ["a"], ["b"])
    ]
    assert result[0] == result[1] == result[2]
    assert encoder_identity("weighted:encode", encoder, ["ab"]) != result[0]
    (tmp_path / "weighted.py").write_text("# edited")
    assert encoder_identity("weighted:encode", encoder, ["a"])[0] != result[0][0]


def test_buckets_never_change() -> None:
    """A trained table means nothing under another hash."""
    result = [bucket(item, 1 << 16) for item in ("<re", "ed>", "<é>", "日本語")]
    assert result == [19269, 25553, 43543, 21221]


def test_short_words_have_n_grams_and_special_symbols_none() -> None:
    assert ngrams("a") == ["<a>"]
    assert all(ngrams(symbol) == [] for symbol in SPECIAL)
    assert NgramTable.of(SPECIAL, 9).buckets.size == 0


def test_a_slip_shares_n_grams_with_its_word_and_an_order_has_its_own() -> None:
    assert len({*ngrams("restaurant")} & {*ngrams("resturant")}) >= 10
    assert not {*ngrams("stop")} & {*ngrams("pots")}


def test_a_word_of_any_length_has_few_n_grams() -> None:
    assert len(ngrams("x" * 100_000)) == len(ngrams("x" * MOST_CHARACTERS)) < 120


def test_rows_can_be_taken_in_any_order_and_joined() -> None:
    words = ["red", "<eoq>", "suede", "shoes"]
    table = NgramTable.of(words, 97)
    rows = np.array([3, 1, 0, 3])
    taken, expected = table.take(rows), NgramTable.of([words[row] for row in rows], 97)
    joined = NgramTable.of(words[:2], 97).joined(NgramTable.of(words[2:], 97))
    for result, wanted in ((taken, expected), (joined, table)):
        assert result.buckets.tolist() == wanted.buckets.tolist()
        assert result.starts.tolist() == wanted.starts.tolist()
    assert len(table.take(np.zeros(0, dtype=np.int64))) == 0


def test_the_mean_is_over_the_n_grams_of_the_word() -> None:
    vectors = np.random.default_rng(0).normal(size=(97, 4)).astype(np.float32)
    words = ["<pad>", "red", "<unk>", "suede", "<eoq>"]
    result = NgramTable.of(words, 97).means(vectors)
    for word, row in zip(words, result, strict=True):
        rows = [vectors[bucket(item, 97)] for item in ngrams(word)]
        expected = np.mean(rows, axis=0) if rows else np.zeros(4)
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6)
    assert NgramTable.of(["<pad>"], 97).means(vectors).tolist() == [[0.0] * 4]
