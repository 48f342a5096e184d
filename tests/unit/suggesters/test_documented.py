from pathlib import Path

import pytest

from nextquery.settings import descriptions
from nextquery.suggesters.loading import COUNT_MODELS, count_model

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "models.md"


@pytest.mark.parametrize("kind", COUNT_MODELS)
def test_every_setting_is_documented_with_its_default(kind: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text.split(f"\n## {kind}", 1)[1].split("\n## ", 1)[0]
    settings = count_model(kind).settings_type
    for name, field in settings.model_fields.items():
        assert descriptions(settings).get(name), f"{kind}: {name} has no docstring"
        rows = [line for line in section.splitlines() if f"`{name}`" in line and line[0] == "|"]
        assert rows, f"docs/reference/models.md: {kind} lacks {name}"
        if "as for qvmm" not in rows[0]:
            default = _written(field.default)
            assert default in rows[0], f"docs/reference/models.md: {kind}: {name} is {default}"


def _written(default: object) -> str:
    if default is None or isinstance(default, bool):
        return str(default).lower()
    return str(default).removesuffix(".0")
