"""Reference text generated from the code; pages of docs/reference include it."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer.main
from typer.core import TyperArgument, TyperGroup, TyperOption

import nextquery
from nextquery.cli.main import app
from nextquery.config import Section
from nextquery.inference.settings import DecodeConfig
from nextquery.model.settings import ModelConfig, TrainConfig, TransformerConfig
from nextquery.settings import descriptions
from nextquery.suggesters.loading import COUNT_MODELS, count_model
from nextquery.suggesters.returning import ReturningSettings

CONFIGS = Path(__file__).parents[1] / "configs"


def write_reference(folder: Path) -> None:
    """Write the generated files, each only if it changed."""
    folder.mkdir(exist_ok=True)
    pages = {
        "commands.md": _commands(),
        "config.md": _config(),
        "http.md": _http(),
        "python.md": _python(),
        "count_models.md": _count_models(),
        "metrics.md": _metrics(),
    }
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _commands() -> str:
    lines = []
    for name, command in _each(typer.main.get_command(app)):
        lines += [f"## nextquery {name}", "", str(command.help), "", "| parameter | meaning |"]
        lines += ["|---|---|"]
        for parameter in command.params:
            if isinstance(parameter, TyperArgument):
                lines.append(f"| `{parameter.name}` | {_cell(parameter.help)} |")
            elif isinstance(parameter, TyperOption):
                names = ", ".join(f"`{option}`" for option in parameter.opts)
                lines.append(f"| {names} | {_cell(parameter.help)}{_default(parameter)} |")
        lines.append("")
    return "\n".join(lines)


def _each(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _each(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _default(option: TyperOption) -> str:
    value = option.default
    if value is None or value == "" or value is False or option.required or callable(value):
        return ""
    return f" (default: {value})"


def _config() -> str:
    shipped = {
        name: tomllib.loads((CONFIGS / f"{name}.toml").read_text(encoding="utf-8"))
        for name in ("tiny", "small", "paper")
    }
    lines = _section("[model] of HRED", ModelConfig, shipped, "model")
    lines += _section("[model] of the Transformer", TransformerConfig)
    lines += _section("[train]", TrainConfig, shipped, "train")
    lines += _section("Decode settings", DecodeConfig)
    return "\n".join(lines)


def _count_models() -> str:
    lines = []
    for kind in COUNT_MODELS:
        lines += _section(kind, count_model(kind).settings_type)
    lines += _section("returning", ReturningSettings)
    return "\n".join(lines)


def _section(
    title: str,
    section: type[Section],
    shipped: Mapping[str, Mapping[str, Any]] | None = None,
    table: str = "",
) -> list[str]:
    """One table of settings; with `shipped`, also the values of the shipped configurations."""
    shipped = shipped or {}
    head = ["key", "default", *shipped, "meaning"]
    lines = [f"### {title}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    meanings = descriptions(section)
    for name, field in section.model_fields.items():
        key = field.alias or name
        values = [document.get(table, {}).get(key) for document in shipped.values()]
        cells = ["" if value is None else f"`{_value(value)}`" for value in values]
        row = [f"`{key}`", f"`{_value(field.default)}`", *cells, _cell(meanings.get(name))]
        lines.append(f"| {' | '.join(row)} |")
    return [*lines, ""]


def _value(value: object) -> str:
    """A value as it is written in TOML."""
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


def _metrics() -> str:
    from nextquery.service.monitoring import Metrics

    lines = ["| name | meaning |", "|---|---|"]
    for family in Metrics().registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        lines.append(f"| `{name}` | {_cell(family.documentation)} |")
    return "\n".join([*lines, ""])


def _http() -> str:
    from fastapi import FastAPI

    from nextquery.service import routes

    api = FastAPI(title="nextquery", version=nextquery.__version__)
    api.include_router(routes.router)
    api.include_router(routes.admin_router)
    document = api.openapi()
    lines = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            lines += [f"### `{method.upper()} {path}`", "", operation.get("description", ""), ""]
            lines += _fields(operation, document)
            codes = ", ".join(f"`{code}`" for code in operation["responses"])
            lines += [f"Answers: {codes}", ""]
    return "\n".join(lines)


def _fields(operation: dict[str, Any], document: dict[str, Any]) -> list[str]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    reference = body.get("schema", {}).get("$ref", "")
    schema = document["components"]["schemas"].get(reference.rsplit("/", 1)[-1], {})
    rows = [
        f"| `{name}` | {_cell(facts.get('description') or facts.get('title'))} |"
        for name, facts in schema.get("properties", {}).items()
    ]
    return ["| field | meaning |", "|---|---|", *rows, ""] if rows else []


def _python() -> str:
    lines = []
    for name in nextquery.__all__:
        if name.startswith("__"):
            continue
        kind = "autoclass" if isinstance(getattr(nextquery, name), type) else "autofunction"
        home = getattr(nextquery, name).__module__
        members = "" if name.endswith("Error") else "\n   :members:" if kind == "autoclass" else ""
        lines += [
            f"### {name}",
            "",
            "```{eval-rst}",
            f".. {kind}:: {home}.{name}{members}",
            "```",
            "",
        ]
    return "\n".join(lines)


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
