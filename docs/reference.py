"""Reference pages made from the code: commands, config keys, HTTP routes, public names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.core import TyperArgument, TyperGroup, TyperOption

import nextquery
from nextquery.cli.main import app
from nextquery.config import Section
from nextquery.settings import descriptions


def write_reference(folder: Path) -> None:
    """Write the pages, each only if it changed."""
    folder.mkdir(exist_ok=True)
    pages = {
        "commands.md": _commands(),
        "config.md": _config(),
        "http.md": _http(),
        "python.md": _python(),
    }
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _commands() -> str:
    lines = ["# Commands, as `--help` shows them", ""]
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
    from nextquery.inference.settings import DecodeConfig
    from nextquery.model.settings import ModelConfig, TrainConfig, TransformerConfig

    lines = ["# Configuration", "", "Keys of the TOML files that `nextquery train --config` takes,"]
    lines += ["and of `--set`. The shipped files are in `configs/`.", ""]
    lines += _section("[model] of HRED", ModelConfig)
    lines += _section("[model] of the Transformer", TransformerConfig)
    lines += _section("[train]", TrainConfig)
    lines += _section("decoding: `--set` of suggest, complete and score", DecodeConfig)
    return "\n".join(lines)


def _section(title: str, section: type[Section]) -> list[str]:
    lines = [f"## {title}", "", "| key | default | meaning |", "|---|---|---|"]
    meanings = descriptions(section)
    for name, field in section.model_fields.items():
        key = field.alias or name
        lines.append(f"| `{key}` | `{field.default!r}` | {_cell(meanings.get(name))} |")
    return [*lines, ""]


def _http() -> str:
    from fastapi import FastAPI

    from nextquery.service import routes

    api = FastAPI(title="nextquery", version=nextquery.__version__)
    api.include_router(routes.router)
    api.include_router(routes.admin_router)
    document = api.openapi()
    lines = [
        "# HTTP API",
        "",
        "From the service's OpenAPI document, which a running service has at",
    ]
    lines += ["`/openapi.json` and shows at `/docs`.", ""]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            lines += [f"## {method.upper()} {path}", "", operation.get("description", ""), ""]
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
    lines = ["# Python API", "", "```{eval-rst}", ".. automodule:: nextquery", "```", ""]
    for name in nextquery.__all__:
        if name.startswith("__"):
            continue
        kind = "autoclass" if isinstance(getattr(nextquery, name), type) else "autofunction"
        home = getattr(nextquery, name).__module__
        members = "" if name.endswith("Error") else "\n   :members:" if kind == "autoclass" else ""
        lines += [
            f"## {name}",
            "",
            "```{eval-rst}",
            f".. {kind}:: {home}.{name}{members}",
            "```",
            "",
        ]
    return "\n".join(lines)


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
