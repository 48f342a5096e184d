"""Coverage-guided fuzzing of what is read without trust: manifests, tries, logs, blocklists.

Each target runs in its own process (`python fuzz_targets.py TARGET SECONDS FOLDER`), since it may
crash. An error of nextquery is expected; any other exception, a crash or a hang is a defect.
"""

import io
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

Target = Callable[[bytes], None]


def manifest(content: bytes) -> None:
    """A manifest is read, or refused."""
    from nextquery.artifacts.manifest import parse_manifest

    parse_manifest(content, Path("folder"))


def trie(content: bytes) -> None:
    """A trie that passes the check can be walked from end to end."""
    import marisa_trie

    from nextquery.artifacts.arrays import check_trie_file

    check_trie_file(content)
    opened = marisa_trie.BinaryTrie()
    try:
        opened.frombytes(content)
    except RuntimeError:  # marisa refuses it itself, which opening a folder reports by name
        return
    for key in opened.iterkeys():
        assert key in opened


def log(content: bytes) -> None:
    """A log of any form is read, or refused; every line is a row or a rejected one."""
    from nextquery.logs.reading.read_logs import read_logs
    from nextquery.logs.settings import ReadSettings

    with tempfile.TemporaryDirectory(prefix="nextquery-fuzz-") as folder:
        file = Path(folder) / "log"
        file.write_bytes(content)
        read_logs([file], ReadSettings(max_rejected=1.0), Path(folder) / "out")


def blocklist(content: bytes) -> None:
    """An entry blocks itself, whatever its letters are, and any text can be asked about."""
    from nextquery.guard.blocklist import Blocklist
    from nextquery.normalise import normalise_query

    entry, _, text = content.decode("utf-8", "ignore").partition("\n")
    entries = Blocklist([entry])
    if len(entries):
        assert entries.blocks(normalise_query(entry)), entry
    entries.blocks(normalise_query(text))


TARGETS: dict[str, Target] = {
    "manifest": manifest,
    "trie": trie,
    "log": log,
    "blocklist": blocklist,
}


def seeds(name: str) -> list[bytes]:
    """Inputs to begin with."""
    if name == "trie":
        import marisa_trie

        return [
            marisa_trie.BinaryTrie(words).tobytes()
            for words in ([b"red"], [b"red shoes", b"red boots", b"paris", b"rome"])
        ]
    if name == "log":
        rows = "1\tred shoes\t2006-03-01 07:17:12\t\t\n"
        json_row = '{"user": "1", "time": "2006-03-01T07:17:12Z", "query": "red shoes"}\n'
        header = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
        csv = "user,time,query\n1,2006-03-01 07:17:12,red shoes\n"
        return [(header + rows).encode(), json_row.encode(), csv.encode()]
    if name == "manifest":
        return [b'{"kind": "data", "files": {"a": "' + b"0" * 64 + b'"}, "sizes": {"a": 1}}']
    return [b"badword\nbadwords", "bäd-wörd\nb4d w0rd".encode(), b"69\nkenny g"]


def _fuzz(name: str, seconds: str, folder: str) -> None:
    import atheris

    warnings.simplefilter("ignore")
    # What is imported inside is instrumented: the targets import when they are first called.
    with atheris.instrument_imports(include=["nextquery"]):
        from nextquery.errors import NextqueryError

        def one(content: bytes) -> None:
            try:
                TARGETS[name](content)
            except (NextqueryError, OSError):
                return

        for number, seed in enumerate(seeds(name)):
            (Path(folder) / str(number)).write_bytes(seed)
            one(seed)
    options = [f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=30", "-max_len=4096"]
    atheris.Setup([__file__, *options, f"-artifact_prefix={folder}/", folder], one)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.stdout = io.StringIO()
    _fuzz(*sys.argv[1:])
