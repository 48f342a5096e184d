from pathlib import Path

import pytest

from nextquery.errors import InputError
from nextquery.guard.blocklist import read_blocklist
from nextquery.service.operation.blocking import block_text


@pytest.mark.parametrize("before", ["# ours\nfirst\n", "# ours\nfirst", ""])
def test_the_entry_is_added_and_the_rest_stays(before: str, tmp_path: Path) -> None:
    path = tmp_path / "blocklist"
    path.write_text(before)
    assert block_text(path, " Red  SHOES\nsale ") == "red shoes sale"
    after = path.read_text()
    assert after.startswith(before)
    assert after.splitlines()[-1] == "red shoes sale"
    assert read_blocklist(path).blocks("cheap red shoes sale")


def test_a_text_of_which_nothing_remains_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "blocklist"
    path.write_text("first\n")
    with pytest.raises(InputError, match="text: has no letter"):
        block_text(path, " #!? ")
    assert path.read_text() == "first\n"
