"""scripts/vocabulary finds the words and names that the style guide replaces."""

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "vocabulary"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loader = SourceFileLoader("vocabulary_check", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    allowed = tmp_path / "allowed.txt"
    allowed.touch()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "ALLOWED", allowed)
    return module


@pytest.mark.parametrize(
    ("file", "content", "finding"),
    [
        ("README.md", "# Title\n\nA folder is no\nmodel.\n", "README.md:3: 'is no'"),
        ("README.md", "There is no model; `is no code`.\n\n```\nit is no text\n```\n", None),
        ("src/a.py", '"""Fine.\n\n    A made-up log.\n    """\n', "src/a.py:3: 'made-up'"),
        ("src/a.py", 'KEY = "robots"  # one word is a key\n', None),
        ("src/a.py", "X = 1  # what lies there\n", "src/a.py:1: 'lies'"),
        ("src/a.py", "def f(n: int) -> None:\n    found = n\n", "src/a.py:2: 'found'"),
        ("src/a.py", "def f(place: int) -> None: ...\n", "src/a.py:1: 'place'"),
        ("src/a.py", "def f(n):\n    return g(n, place=n)\n", None),
        ("tests/a.py", "found = 1\n", None),
        ("tests/a.py", "found = 1  # what lies there\n", "tests/a.py:1: 'lies'"),
    ],
)
def test_words_code_and_names(
    script: ModuleType,
    capsys: pytest.CaptureFixture[str],
    file: str,
    content: str,
    finding: str | None,
) -> None:
    path = script.ROOT / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    assert script.main() == (finding is not None)
    assert finding is None or capsys.readouterr().out.startswith(finding)


def test_an_exception_counts_for_its_file_and_rule_and_must_be_needed(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    (script.ROOT / "README.md").write_text("It lies behind.\n")
    script.ALLOWED.write_text("README.md | lies | quoted\n")
    assert script.main() == 1
    assert "README.md:1: 'behind'" in capsys.readouterr().out
    script.ALLOWED.write_text("README.md | * | quoted\n")
    assert script.main() == 0
    script.ALLOWED.write_text("README.md | * | quoted\nSECURITY.md | lies | quoted\n")
    assert script.main() == 1
    assert "nothing needs 'SECURITY.md | lies'" in capsys.readouterr().out
