"""Options made of settings classes, options from a file, and results printed as text or JSON."""

import difflib
import inspect
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperArgument

from nextquery.cli.main import in_options
from nextquery.errors import ConfigError, InputError
from nextquery.settings import Option, descriptions, option_of, split_pair

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AnyModel = Annotated[Path, typer.Argument(help="A model folder of any kind.")]
DataFolder = Annotated[Path, typer.Argument(help="A folder that `nextquery prepare` made.")]
NewModel = Annotated[Path, typer.Option(help="The model folder to write.")]
MOST_CONFIG_BYTES = 1 << 20
SettingsT = TypeVar("SettingsT")
T = TypeVar("T")


def print_result(document: Any, text: str, as_json: bool, *, indent: int | None = None) -> None:
    """Print a result on stdout: as one JSON document, or as text for people, if there is any."""
    if as_json:
        typer.echo(json.dumps(document, indent=indent, ensure_ascii=False, default=str))
    elif text:
        typer.echo(text)


def named_folders(options: Iterable[str], setting_name: str) -> dict[str, Path]:
    """Model folders by the name before each: `NAME=FOLDER`, every name once."""
    return _named_values(options, setting_name, "NAME=FOLDER", Path)


def _named_values(
    options: Iterable[str], setting_name: str, form: str, kind: Callable[[str], T]
) -> dict[str, T]:
    values: dict[str, T] = {}
    for option in options:
        name, value = split_pair(option, setting_name, form)
        if name in values:
            raise InputError(f"`{setting_name}` {option}: the name {name!r} is taken")
        values[name] = kind(value)
    return values


class Given(Generic[SettingsT]):
    """The values of the options of a settings class that needs more than options."""

    def __init__(self, kind: type[SettingsT], values: Mapping[str, Any]) -> None:
        self._kind = kind
        self._values = values

    def settings(self, **more: Any) -> SettingsT:
        """The record, with the fields that have no option."""
        return self._kind(**self._values, **more)


@dataclass(frozen=True)
class _Generated:
    """An option that was made of a field of a settings class."""

    declared: Field[Any]
    hint: Any
    option: Option

    def parameter(self, help_text: str) -> inspect.Parameter:
        """The option as a parameter that Typer understands."""
        repeated = self._repeated()
        if repeated is not None:
            annotation, default = list[repeated] | None, None  # type: ignore[valid-type]
        else:
            annotation, default = self.hint, self.declared.default
            assert default is not MISSING, self.declared.name
        if self._is_negative():
            default = not default
        is_number = {int, float} & {self.hint, *get_args(self.hint)}
        bounds = {"min": self.option.least, "max": self.option.most} if is_number else {}
        declared = typer.Option(
            self.option.flag,
            help=help_text,
            metavar=self.option.metavar,
            rich_help_panel=self.option.panel,
            **bounds,  # type: ignore[arg-type]
        )
        return inspect.Parameter(
            self.declared.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[annotation, declared],
        )

    def value(self, read: Any) -> Any:
        """What the settings class takes for what Typer read."""
        kinds = get_args(self.hint)
        if self._is_negative():
            return not read
        if read == "" and type(None) in kinds:
            return None
        if self._is_mapping():
            form = self.option.metavar or "NAME=VALUE"
            return _named_values(read or (), self.declared.name, form, kinds[1])
        if self._repeated() is not None:
            return get_origin(self.hint)(read or self.declared.default)
        return read

    def _repeated(self) -> type[Any] | None:
        """The type of each value of a repeatable option; None of any other."""
        if self._is_mapping():
            return str
        is_collection = get_origin(self.hint) in (tuple, frozenset)
        return get_args(self.hint)[0] if is_collection else None

    def _is_negative(self) -> bool:
        return self.hint is bool and self.declared.default is True

    def _is_mapping(self) -> bool:
        origin = get_origin(self.hint)
        return isinstance(origin, type) and issubclass(origin, Mapping)


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command have one option per field of each settings class among its parameters.

    A parameter annotated with a dataclass gets the record; one annotated with `Given[dataclass]`
    gets the values, for classes with fields that are not options.
    """
    parameters: list[inspect.Parameter] = []
    records: dict[str, tuple[Any, type[Any], list[_Generated]]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        kind = _settings_class(parameter.annotation)
        if kind is None:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        generated = list(_generated(kind))
        flags = {item.declared.name: str(item.option.flag) for item in generated}
        texts = descriptions(kind)
        for item in generated:
            help_text = " ".join(texts[item.declared.name].split())
            if help_text.startswith("False: "):
                help_text = help_text.removeprefix("False: ").capitalize()
            parameters.append(item.parameter(in_options(help_text, flags)))
        records[parameter.name] = parameter.annotation, kind, generated

    @wraps(command)
    def call(**values: Any) -> None:
        for name, (annotation, kind, generated) in records.items():
            chosen = {
                item.declared.name: item.value(values.pop(item.declared.name)) for item in generated
            }
            is_record = get_origin(annotation) is not Given
            values[name] = kind(**chosen) if is_record else Given(kind, chosen)
        command(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _settings_class(annotation: Any) -> type[Any] | None:
    if get_origin(annotation) is Given:
        annotation = get_args(annotation)[0]
    return annotation if isinstance(annotation, type) and is_dataclass(annotation) else None


def _generated(kind: type[Any]) -> Iterator[_Generated]:
    for declared in fields(kind):
        option = option_of(declared)
        if option.flag is None:  # its type may be known to type checkers only
            continue
        hint = get_type_hints(kind)[declared.name] if isinstance(declared.type, str) else None
        yield _Generated(declared, hint or declared.type, option)


def _use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Let the values of a TOML file be the defaults of the command's options."""
    if path is not None:
        context.default_map = {**(context.default_map or {}), **_read_config(context, path)}
    return path


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        callback=_use_config,
        is_eager=True,
        metavar="FILE",
        help="TOML file with any of these options, e.g. budget_ms = 100; options given here "
        "override it.",
    ),
]


def _read_config(context: typer.Context, path: Path) -> dict[str, Any]:
    from nextquery.artifacts.files import read_plain_text

    try:
        values = tomllib.loads(read_plain_text(path, most=MOST_CONFIG_BYTES))
    except OSError as error:
        raise ConfigError(f"`config` {path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    parameters = {
        _key(parameter): parameter
        for parameter in context.command.params
        if not parameter.is_eager and not getattr(parameter, "hidden", False)
    }
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in parameters:
            guesses = difflib.get_close_matches(key, parameters, 1)
            advice = f"; did you mean {guesses[0]!r}?" if guesses else ""
            raise ConfigError(
                f"{path}: unknown key {key!r}{advice} Known keys: {', '.join(parameters)}"
            )
        parameter = parameters[key]
        checked[parameter.name] = _checked(parameter, value, f"{path}: {key}")
    return checked


def _key(parameter: Any) -> str:
    """The key of a parameter in a file: its longest spelling, `--budget-ms` as `budget_ms`."""
    if isinstance(parameter, TyperArgument):
        return str(parameter.name)
    return str(max(parameter.opts, key=len)).lstrip("-").replace("-", "_")


def _checked(parameter: Any, value: Any, where: str) -> Any:
    """The value as the command line would give it; one of another type is refused."""
    kind = parameter.type_descriptor
    if kind.is_list:
        if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
            return [f"{name}={item}" for name, item in value.items()]
        allowed, fits = (
            "a list of strings",
            isinstance(value, list) and all(isinstance(item, str) for item in value),
        )
    elif kind.is_choice:
        choices = [str(choice) for choice in kind.choices or ()]
        allowed, fits = f"one of {', '.join(choices)}", value in choices
    elif kind.annotation is bool:
        allowed, fits = "true or false", isinstance(value, bool)
    elif kind.annotation in (int, float):
        numbers = (int,) if kind.annotation is int else (int, float)
        allowed = "a whole number" if kind.annotation is int else "a number"
        least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
        if least is not None and most is not None:
            allowed += f" from {least:,} to {most:,}"
        elif least is not None:
            allowed += f" of at least {least:,}"
        elif most is not None:
            allowed += f" of at most {most:,}"
        fits = isinstance(value, numbers) and not isinstance(value, bool)
        fits = fits and (least is None or value >= least) and (most is None or value <= most)
    else:
        allowed, fits = "a string", isinstance(value, str)
    if not fits:
        raise ConfigError(f"{where}: must be {allowed} (given: {value!r})")
    return value
