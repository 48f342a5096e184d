"""Blocked words stay blocked in every disguise, and honest words are left alone."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery import load
from nextquery.errors import BlocklistError
from nextquery.guard.blocklist import Blocklist, read_blocklist, read_word
from nextquery.normalise import normalise_query

BLOCKED = Blocklist(["badword", "rude", "make a bomb", "steal his wallet", "crassle"])


@pytest.mark.parametrize(
    "disguised",
    [
        "badword",
        "BadWord",
        "bádwörd",
        "bad\u200bword",  # zero-width space
        "b\u00adadword",  # soft hyphen
        "bad\u202eword",  # right-to-left override
        "b4dw0rd",
        "8adw0rd",
        "bаdwоrd",  # Cyrillic а and о
        "ｂａｄｗｏｒｄ",
        "𝖇𝖆𝖉𝖜𝖔𝖗𝖉",
        "b@dword",
        "b*dword",
        "bad-word",
        "b a d w o r d",
        "b.a.d.w.o.r.d",
        "b 4 d w 0 r d",
        "8 4 d w 0 r d",
        "baaadworrrd",
        "baddword",
        "badwords",
        "badwording",
        "bad-words",
        "b4dw0rdz and badwords",
        "cheap badword online",
        "ruuude",
        "rud3",
        "r.u.d.e",
        "r*de",
        "makeabomb",
        "make-a bomb",
        "how to make a b0mb at home",
        "making a bomb",
        "make a bombs",
        "m.a.k.e a bomb",
        "steal his waiiet",
        "steals his wallets",
        "crassling",
    ],
)
def test_an_entry_is_found_in_every_promised_disguise(disguised: str) -> None:
    assert BLOCKED.blocks(disguised)
    assert BLOCKED.blocks(normalise_query(disguised))


@pytest.mark.parametrize("entry", ["b4dw0rd", "BAD\u200bWORD", "bád-word", "badword"])
def test_the_entry_itself_may_be_written_in_disguise(entry: str) -> None:
    assert Blocklist([entry]).blocks("badword")


@pytest.mark.parametrize(
    "text",
    ["notbadword", "badwordy thing", "bad", "word", "word bad", "bard word", "rued",
     "bomb a make", "make a cake", "make bomb", "a bomb", "crude", "prudent", "bad w", ""],
)  # fmt: skip
def test_other_words_pass(text: str) -> None:
    assert not Blocklist(["badword", "rude", "make a bomb"]).blocks(text)


@pytest.mark.parametrize(
    ("entry", "harmless"),
    [
        ("ass", "455"),  # a number alone is not leetspeak
        ("ass", "as"),
        ("shot", "shoot"),  # short words differ by a doubled letter
        ("reefer", "refer"),  # a disguise adds letters and takes none away
        ("pubic", "public"),
        ("titties", "titles"),
        ("busty", "bustle"),
        ("doggie", "dog"),  # an inflection continues where the entry ends
        ("teste", "test"),
        ("rapist", "therapist"),  # whole words only
        ("cat", "c t"),  # a masked letter needs more letters around it
    ],
)
def test_words_that_only_resemble_an_entry_pass(entry: str, harmless: str) -> None:
    assert not Blocklist([entry]).blocks(harmless)
    assert Blocklist([entry]).blocks(entry)


@pytest.mark.parametrize(
    ("entry", "refused"),
    [
        ("penis", "the pen is mine"),  # pieces that are words themselves
        ("raper", "rapper"),  # a doubled letter
        ("heroin", "heroine"),  # an inflection that is another word
    ],
)
def test_what_the_promise_costs(entry: str, refused: str) -> None:
    assert Blocklist([entry]).blocks(refused)


def test_a_number_alone_is_not_leetspeak_but_a_mixed_word_is() -> None:
    assert not Blocklist(["ass"]).blocks("455")
    for leet in ("a55", "4ss", "a 5 5", "4 s 5"):
        assert Blocklist(["ass"]).blocks(leet)


@pytest.mark.parametrize("text", ["kenny g", "g", "gg", "i", "s"])
def test_a_number_as_an_entry_harms_no_letter_that_it_reads_as(text: str) -> None:
    entries = Blocklist(["69", "11", "55"])
    assert not entries.blocks(text)
    assert entries.blocks("model 69")


def test_the_last_word_is_judged_with_the_words_before_it() -> None:
    assert BLOCKED.blocks_last(["make", "a", "bomb"])
    assert not BLOCKED.blocks_last(["make", "a"])
    assert BLOCKED.blocks_last(["very", "rude"])
    assert not BLOCKED.blocks_last(["rude", "person"])
    assert BLOCKED.blocks_last(["cheap", "bad", "word"])
    assert not BLOCKED.blocks_last(["bad", "word", "list"])


PIECES = st.sampled_from(
    ["bad", "word", "words", "b", "a", "d", "w", "o", "r", "make", "makes", "bomb", "rude", "ru",
     "de", "hotel", "0", "4", "1", "baad", "ing", "dword", "m", "k", "e", "bombs"]
)  # fmt: skip


@given(st.lists(PIECES, min_size=1, max_size=9))
def test_a_search_that_asks_word_by_word_finds_what_the_whole_text_holds(words: list[str]) -> None:
    """A search asks `blocks_last` only where `may_end` says so; nothing is left out by that."""
    result = False
    for end, word in enumerate(words):
        read = read_word(word)
        result |= BLOCKED.is_entry(read)
        result |= BLOCKED.may_end(read) and BLOCKED.blocks_last(words[: end + 1])
    assert result == BLOCKED.blocks(" ".join(words))


@pytest.mark.parametrize("query", ["search", "SEARCH", "s3arch", "seаrch", "new york", "new-york"])
def test_a_whole_query_is_blocked_as_a_whole_only(query: str) -> None:
    blocklist = Blocklist(['="search"', "=New York", '=""'])
    assert len(blocklist) == 2
    assert blocklist.blocks(query)
    assert not blocklist.blocks(f"{query} hotels")
    assert not blocklist.blocks(f"cheap {query}")
    assert not blocklist.blocks_last(query.split())  # more words may follow


def test_a_model_does_not_suggest_a_blocked_query(
    served_models: dict[str, Path], tmp_path: Path
) -> None:
    first = load(served_models["hred"]).suggest(["paris"])[0].text
    (tmp_path / "blocked").write_text(f'="{first}"\n')
    shown = load(served_models["hred"], blocklist=tmp_path / "blocked").suggest(["paris"])
    assert shown
    assert first not in [item.text for item in shown]


@pytest.mark.parametrize("added", [["boots"], ["red hat", '="search"', "shoot"], ["ab", "b4dword"]])
def test_added_lines_are_read_alone_and_block_the_same(added: list[str], tmp_path: Path) -> None:
    path, entries = tmp_path / "blocked", [f"entry{number} word" for number in range(20)]
    path.write_text("\n".join([*entries, "badword", "make a bomb"]))
    before = read_blocklist(path)
    path.write_text("\n".join([*added, *entries, "# more", "badword", "make a bomb"]))
    longer, whole = read_blocklist(path, before), read_blocklist(path)
    inflected = [f"{entry}s" for entry in [*added, *entries]]
    texts = [*added, *inflected, "bad words", "making bombs", "search", "hat", "s h o o t", "bo*ts"]
    assert [longer.blocks(text) for text in texts] == [whole.blocks(text) for text in texts]
    assert not before.blocks(added[0])


def test_a_removed_line_blocks_no_more(tmp_path: Path) -> None:
    path = tmp_path / "blocked"
    path.write_text("badword\nother\n")
    before = read_blocklist(path)
    path.write_text("other\nthird\n")
    after = read_blocklist(path, before)
    assert [after.blocks(text) for text in ("badword", "other", "third")] == [False, True, True]


def test_a_file_may_have_comments_and_empty_lines(tmp_path: Path) -> None:
    file = tmp_path / "blocked.txt"
    file.write_text("# words\n\nrude  # not nice\nmake a bomb\n", encoding="utf-8")
    blocklist = read_blocklist(file)
    assert len(blocklist) == 2
    assert blocklist.blocks("rude")
    assert not blocklist.blocks("nice")


@pytest.mark.parametrize("content", [b"", b"# only a comment\n", b"...\n", b"\xff\xfe\x00bad"])
def test_an_empty_or_unreadable_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "blocked.txt"
    file.write_bytes(content)
    with pytest.raises(BlocklistError, match=r"blocked\.txt"):
        read_blocklist(file)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BlocklistError, match="cannot be read"):
        read_blocklist(tmp_path / "none.txt")


@pytest.mark.parametrize(
    "disguised",
    [
        "شـتـيـمـة",  # drawn out
        "شَتِيمَة",  # with vowel signs
        "ﺷﺘﻴﻤﺔ",  # in presentation forms
        "ㄴㅏㅃㅡㄴㄷㅏㄴㅇㅓ",  # letter by letter
        "나쁜\u200b단어",
        "ГРУ\u0301БОСТЬ",
        "κακολογια",
    ],
)
def test_other_scripts_are_read_without_what_is_only_drawn(disguised: str) -> None:
    blocked = Blocklist(["شتيمة", "나쁜단어", "грубость", "κακολογία"])
    assert blocked.blocks(normalise_query(disguised))
    assert not blocked.blocks(normalise_query("나쁜 날"))


@pytest.mark.parametrize(
    "text",
    [
        "ʙᴀᴅᴡᴏʀᴅ", "ƀⱥđwøɍđ", "ɓɐɖwɵɾɖ", "ꞗaꝺꟃoꞃꝺ", "ᗷᗩᗪᗯOᖇᗪ", "ȺBADWORD badwꝍrd", "cheap badꟃord",
    ],
)  # fmt: skip
def test_letters_for_scholars_hide_nothing(text: str) -> None:
    assert Blocklist(["badword"]).blocks(text)


@pytest.mark.parametrize(("entry", "word"), [("pig", "þig"), ("hoo", "hɔɔ"), ("bed", "bəd")])
def test_letters_of_living_alphabets_are_letters_of_their_own(entry: str, word: str) -> None:
    assert not Blocklist([entry]).blocks(word)
    assert Blocklist([word]).blocks(word)
