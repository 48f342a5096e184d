"""How a settings class declares its fields: default, limits and documentation, written once.

    @dataclass(frozen=True)
    class Limits:
        rows: int = setting(10, least=1)
        \"\"\"How many rows are read.\"\"\"

`check_limits` refuses values outside the limits, and `cli/options.py` makes the command-line
options of the class. Sections of TOML files are in `config.py`.
"""

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields
from itertools import pairwise
from typing import Any, TypeVar

from nextquery.errors import InputError

TUNING = "Tuning"
"""The help panel of options that most people never need."""

T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """How a setting appears on the command line, and which values it may have."""

    flag: str | None
    """As it is typed; None: the setting has no option."""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    panel: str | None = None
    """The help panel; None: the first one."""


def setting(
    default: T,
    *,
    factory: Callable[[], T] | None = None,
    flag: str | None = "",
    least: float | None = None,
    most: float | None = None,
    choices: Sequence[str] = (),
    metavar: str | None = None,
    panel: str | None = None,
) -> T:
    """A field of a settings class; `flag` is its option where that is not the field's name.

    A boolean that is true by default has a flag that begins with `--no-`, and documentation that
    begins with `False: `, which the help leaves out.
    """
    option = Option(flag, least, most, tuple(choices), metavar, panel)
    declared: Any = (
        field(default=default, metadata={"option": option})
        if factory is None
        else field(default_factory=factory, metadata={"option": option})
    )
    result: T = declared
    return result


def option_of(declared: Field[Any]) -> Option:
    """The option of a field; its flag is made of the field's name if none was given."""
    option: Option = declared.metadata.get("option", Option(""))
    if option.flag != "":
        return option
    values = {**vars(option), "flag": f"--{declared.name.replace('_', '-')}"}
    return Option(**values)


def check_limits(settings: Any) -> None:
    """Raise `InputError` for the first value outside the limits of its field."""
    for declared in fields(settings):
        option, value = option_of(declared), getattr(settings, declared.name)
        if value is None:
            continue
        if option.choices and value not in option.choices:
            allowed = ", ".join(option.choices)
            raise InputError(f"`{declared.name}` {value!r}: must be one of {allowed}")
        # Written so that nan is refused as well.
        if option.least is not None and not value >= option.least:
            raise InputError(f"`{declared.name}` {value}: must be at least {option.least:,}")
        if option.most is not None and not value <= option.most:
            raise InputError(f"`{declared.name}` {value}: must be at most {option.most:,}")


def descriptions(kind: type[Any]) -> dict[str, str]:
    """The docstring under each field of a class and of its parents, by the field's name."""
    described: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        if parent.__module__.partition(".")[0] in ("builtins", "pydantic", "typing"):
            continue
        module = ast.parse(inspect.getsource(inspect.getmodule(parent) or parent))
        classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
        body = next(node.body for node in classes if node.name == parent.__name__)
        for declared, after in pairwise(body):
            if (
                isinstance(declared, ast.AnnAssign)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
            ):
                described[ast.unparse(declared.target)] = inspect.cleandoc(str(after.value.value))
    return described


def split_pair(
    text: str, setting_name: str, form: str = "NAME=VALUE", *, empty: bool = False
) -> tuple[str, str]:
    """Both sides of `NAME=VALUE`; the value may be `empty` only if the caller says so.

    Anything else is refused with the setting's name and the `form` to write.

    >>> split_pair("adj=models/adj", "compare", "NAME=MODEL")
    ('adj', 'models/adj')
    """
    name, separator, value = text.partition("=")
    if not separator or not name or not (value or empty):
        raise InputError(f"`{setting_name}` {text}: write {form}")
    return name, value
