"""`where` takes rows by any column of the raw log, in every format whose columns have names."""

import json
from pathlib import Path

import polars as pl
import pytest
from tests.reliability.log_files import workbook

from nextquery.errors import InputError, LogError
from nextquery.logs.data_folder import PreparedData
from nextquery.logs.prepare import prepare
from nextquery.logs.reading.read_logs import read_logs
from nextquery.logs.revise import recorded_settings
from nextquery.logs.settings import PrepareSettings, ReadSettings

ROWS = [
    ("u1", "2024-03-01 10:00:00", "red shoes", "shop", 1),
    ("u1", "2024-03-01 10:01:00", "search", "shop", 2),
    ("u2", "2024-03-01 10:02:00", "staff rota", "intranet", 1),
    ("u3", "2024-03-01 10:03:00", 'a "b" c', " shop ", 1),
    ("u4", "2024-03-01 10:04:00", "no site", "", 1),
]
NAMES = ("user", "time", "query", "site", "page")


def _write(folder: Path, kind: str) -> Path:
    file = folder / f"log.{kind}"
    table = pl.DataFrame(ROWS, NAMES, orient="row")
    match kind:
        case "csv":
            table.write_csv(file)
        case "tsv":
            lines = ["\t".join(map(str, row)) for row in (NAMES, *ROWS)]
            file.write_text("\n".join(lines) + "\n")
        case "ndjson":
            rows = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        case "parquet":
            table.write_parquet(file)
        case "xlsx":
            file.write_bytes(workbook([["Site search, March"], [], [*NAMES], *map(list, ROWS)]))
    return file


@pytest.mark.parametrize("kind", ["csv", "tsv", "ndjson", "parquet", "xlsx"])
@pytest.mark.parametrize(
    ("where", "taken"),
    [
        (["site=shop"], ["red shoes", "search", 'a "b" c']),
        (["site!=intranet"], ["red shoes", "search", 'a "b" c', "no site"]),
        (["site=shop", "query!=search"], ["red shoes", 'a "b" c']),
        (["site="], ["no site"]),
        (["page=2"], ["search"]),
    ],
)
def test_rows_are_taken_by_a_column(
    tmp_path: Path, kind: str, where: list[str], taken: list[str]
) -> None:
    settings = ReadSettings(where=tuple(where))
    result = read_logs([_write(tmp_path, kind)], settings, tmp_path / "work")
    rows = pl.read_parquet(tmp_path / "work" / "rows").sort("row")
    assert rows["query"].to_list() == taken
    assert result.reasons["left out by `where`"] == len(ROWS) - len(taken)


@pytest.mark.parametrize("kind", ["csv", "tsv", "ndjson", "parquet", "xlsx"])
def test_an_unknown_column_is_named_with_those_there_are(tmp_path: Path, kind: str) -> None:
    settings = ReadSettings(where=("shop=1",))
    with pytest.raises(LogError, match=r"`where` names the column 'shop'; it has .*site"):
        read_logs([_write(tmp_path, kind)], settings, tmp_path / "work")


def test_what_is_not_a_condition_or_has_no_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`where` site: write column=value or column!=value"):
        ReadSettings(where=("site",))
    (tmp_path / "log").write_text("u1\t970916001949\tred shoes\n" * 3)
    with pytest.raises(LogError, match=r"`where` goes with parquet, .*, not with excite"):
        read_logs([tmp_path / "log"], ReadSettings(where=("a=b",)), tmp_path / "work")


def test_a_data_folder_remembers_its_conditions(tmp_path: Path) -> None:
    header = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
    rows = [f"u{n % 3}\tshoes {n}\t2006-03-01 10:0{n}:00\t1\thttp://a\n" for n in range(6)]
    rows += [f"u1\tsearch\t2006-03-01 10:0{n}:00\n" for n in range(6)]
    (tmp_path / "log.tsv").write_text(header + "".join(rows))
    read = ReadSettings(where=("Query!=search",))
    cuts = "2006-04-01,2006-04-02,2006-04-03"
    settings = PrepareSettings(read, min_users=1, spelling=False, split_at=cuts)
    entries = prepare([tmp_path / "log.tsv"], tmp_path / "data", settings)
    assert entries["counts"]["rejected"] == {"left out by `where`": 6}
    data = PreparedData(tmp_path / "data")
    assert recorded_settings(data, with_recogniser=False).read.where == ("Query!=search",)
