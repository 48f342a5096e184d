from nextquery.logs.counting import COUNT_KEYS, CountTables
from nextquery.logs.engines import base


def test_every_count_table_has_texts_a_count_and_users() -> None:
    assert base.COUNTS.keys() == COUNT_KEYS.keys() == CountTables.__dataclass_fields__.keys()
    for name, schema in base.COUNTS.items():
        texts = len(COUNT_KEYS[name])
        assert schema.names[texts : texts + 2] == ["count", "users"]
