from multiprocessing.connection import Pipe

import pytest

from nextquery.evaluation import ranker_process


def test_an_error_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = Pipe()
    monkeypatch.setattr("sys.argv", ["ranker_process", str(theirs.fileno())])
    monkeypatch.setattr(ranker_process, "Connection", lambda _: theirs)
    ours.send("no job")
    ranker_process.main()

    assert isinstance(ours.recv(), AttributeError)


def test_an_asker_that_has_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = Pipe()
    monkeypatch.setattr("sys.argv", ["ranker_process", str(theirs.fileno())])
    monkeypatch.setattr(ranker_process, "Connection", lambda _: theirs)
    ours.close()
    ranker_process.main()

    assert theirs.closed
