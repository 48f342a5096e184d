import json
import logging
import sys

from nextquery.service.monitoring import JsonFormatter


def test_a_line_is_json_with_its_fields() -> None:
    record = logging.LogRecord("x", logging.INFO, "f", 1, "request", None, None)
    record.fields = {"request_id": "ab", "status": 200}
    entry = json.loads(JsonFormatter().format(record))
    assert (entry["message"], entry["request_id"], entry["status"]) == ("request", "ab", 200)
    assert entry["time"].endswith("Z")


def test_of_an_error_the_place_is_logged_and_never_the_message() -> None:
    try:
        raise ValueError("my secret query")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", None, sys.exc_info())
    line = JsonFormatter().format(record)
    entry = json.loads(line)
    assert entry["error"] == "ValueError"
    assert "test_logging.py" in entry["places"][-1]
    assert "secret" not in line
