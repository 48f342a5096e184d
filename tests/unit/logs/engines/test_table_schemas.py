import pyarrow as pa

from nextquery.logs.counting import COUNT_KEYS, CountTables
from nextquery.logs.engines import base


def test_every_count_table_has_texts_a_count_and_users() -> None:
    assert base.COUNTS.keys() == COUNT_KEYS.keys() == CountTables.__dataclass_fields__.keys()
    for name, schema in base.COUNTS.items():
        *texts, count, users = schema
        assert len(texts) == len(COUNT_KEYS[name])
        assert {field.type for field in texts} == {pa.string()}
        assert (count.name, users.name) == ("count", "users")
