"""Typed configuration: one frozen section per stage, read from TOML; unknown keys are errors."""

import copy
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nextquery.artifacts.files import read_plain_text
from nextquery.errors import ArtifactError, ConfigError
from nextquery.settings import split_pair

_MOST_BYTES = 1 << 24
_PACKAGED = Path(__file__).parent / "configs"
_CHECKOUT = Path(__file__).parents[2] / "configs"

SectionT = TypeVar("SectionT", bound="Section")


class Section(BaseModel):
    """Base of all sections: frozen, and no key beyond those declared."""

    # Pydantic could read the docstrings under the fields and build its validators at import, which
    # takes a fifth of a short command: `settings.descriptions` reads them when they are needed.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def shipped_configs() -> dict[str, Path]:
    """The configs that come with the package, by name."""
    folder = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def load_config(
    kind: type[SectionT], source: str | Path, overrides: Sequence[str] = ()
) -> SectionT:
    """Read a shipped name or a TOML file as `kind`, then apply `section.key=value` overrides."""
    path = shipped_configs().get(str(source), Path(source))
    try:
        values = tomllib.loads(read_plain_text(path, most=_MOST_BYTES))
    except OSError:
        names = ", ".join(shipped_configs())
        raise ConfigError(f"`config` {source}: neither a file nor one of: {names}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    return changed_config(kind, values, overrides, str(path))


def changed_config(
    kind: type[SectionT],
    values: Mapping[str, Any],
    overrides: Sequence[str],
    where: str = "`overrides`",
) -> SectionT:
    """Stored values as `kind`, with `section.key=value` overrides; an error names `where`."""
    copied = copy.deepcopy(dict(values))
    for override in overrides:
        _apply(copied, override)
    return validated(kind, copied, where)


def from_overrides(kind: type[SectionT], overrides: Sequence[str]) -> SectionT:
    """The defaults of a section with `key=value` overrides."""
    return changed_config(kind, {}, overrides)


def validated(kind: type[SectionT], values: dict[str, Any], where: str) -> SectionT:
    """The section with these values; an error names `where` they come from."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{where}: {_first_problem(error)}") from None


def stored_section(kind: type[SectionT], values: Any, folder: Path) -> SectionT:
    """The section that the manifest of `folder` has as `values`."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ArtifactError(f"{folder}: its manifest has {_first_problem(error)}") from None


def _apply(values: dict[str, Any], override: str) -> None:
    form = "section.key=value, e.g. `train.epochs=3`"
    key, text = split_pair(override, "overrides", form, empty=True)
    *sections, leaf = key.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"`overrides` {override}: {section} is a value, not a section")
    values[leaf] = _toml_value(text)


def _toml_value(text: str) -> Any:
    """A TOML value, or the bare text where it is none, so that strings need no quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # also a number of more digits than Python reads
        return text


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    # Tags of unions are in parentheses and not part of the key.
    parts = [str(part) for part in problem["loc"] if not str(part).startswith("(")]
    key = ".".join(parts)
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key!r}"
    return f"{key}: {problem['msg']} (given: {problem['input']!r})"
