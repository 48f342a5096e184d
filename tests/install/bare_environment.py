"""Virtual environments that hold the built wheel, what its metadata asks for, and nothing else.

The packages are those of the environment that runs the tests, linked into the bare one by the files
that each says it installed: seconds instead of minutes, and no network. What this leaves untried,
that pip itself finds and fetches them, is what `./scripts/bench install` does.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement


@dataclass(frozen=True)
class BareEnvironment:
    """A virtual environment with the wheel, and a folder to work in."""

    python: Path
    work: Path
    packages: frozenset[str]

    def run(self, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run `nextquery WORDS`; it must end with this code."""
        done = subprocess.run(
            [str(self.python.parent / "nextquery"), *map(str, words)],
            cwd=self.work, env=self.environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def started(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start `nextquery WORDS` and do not wait."""
        return subprocess.Popen(
            [str(self.python.parent / "nextquery"), *map(str, words)],
            cwd=self.work, env=self.environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def size(self) -> int:
        """The bytes of all packages, as if they were not links."""
        [site] = (self.python.parents[1] / "lib").glob("python*/site-packages")
        done = subprocess.run(
            ["du", "--summarize", "--dereference", "--bytes", str(site)],
            check=True,
            capture_output=True,
            text=True,
        )
        return int(done.stdout.split()[0])

    @property
    def environment(self) -> dict[str, str]:
        """The variables of this process but for those that would show it other packages."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        return kept | {"COLUMNS": "200"}


def make_environment(folder: Path, wheel: Path) -> BareEnvironment:
    """A virtual environment into which pip put the wheel, and the packages of the core."""
    python, site = _virtual_environment(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "install", *options, str(wheel)], check=True)
    [metadata] = site.glob("nextquery-*.dist-info")
    return _filled(folder, python, site, Distribution.at(metadata), frozenset())


def with_extra(core: BareEnvironment, folder: Path, extra: str) -> BareEnvironment:
    """One that has the wheel as the core's environment has it, and an extra."""
    python, site = _with_wheel(core, folder)
    [metadata] = site.glob("nextquery-*.dist-info")
    return _filled(folder, python, site, Distribution.at(metadata), frozenset([extra]))


def with_requirements(core: BareEnvironment, folder: Path, names: list[str]) -> BareEnvironment:
    """One that has the wheel without its dependencies, and listed packages with theirs."""
    python, site = _with_wheel(core, folder)
    packages: dict[str, Distribution] = {}
    for name in names:
        packages[name] = _installed(Requirement(name))
        packages |= dict(_closure(packages[name], frozenset(), set()))
    return _linked(folder, python, site, packages)


def _with_wheel(core: BareEnvironment, folder: Path) -> tuple[Path, Path]:
    """The interpreter and packages of a new environment that has the core's wheel alone."""
    python, site = _virtual_environment(folder)
    [site_packages] = (core.python.parents[1] / "lib").glob("python*/site-packages")
    for installed in site_packages.glob("nextquery*"):
        (site / installed.name).symlink_to(installed)
    script = core.python.with_name("nextquery").read_text("utf-8")
    copied = python.with_name("nextquery")
    copied.write_text(script.replace(str(core.python.parent), str(python.parent)), "utf-8")
    copied.chmod(0o755)
    return python, site


def _virtual_environment(folder: Path) -> tuple[Path, Path]:
    """The interpreter of a new environment, and where its packages are."""
    environment = folder / "environment"
    command = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(command, check=True)
    [site] = (environment / "lib").glob("python*/site-packages")
    return environment / "bin" / "python", site


def _filled(
    folder: Path, python: Path, site: Path, wheel: Distribution, extras: frozenset[str]
) -> BareEnvironment:
    """Link what the wheel's metadata asks for, and nothing else."""
    return _linked(folder, python, site, dict(_closure(wheel, extras, set())))


def _linked(
    folder: Path, python: Path, site: Path, packages: dict[str, Distribution]
) -> BareEnvironment:
    for package in packages.values():
        _link(package, site)
    work = folder / "work"
    work.mkdir()
    return BareEnvironment(python, work, frozenset(packages))


def _closure(
    package: Distribution, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]
) -> Iterator[tuple[str, Distribution]]:
    """Every distribution that a package with these extras needs here, by name."""
    for text in package.requires or ():
        needed = Requirement(text)
        if not _applies(needed, extras):
            continue
        name = re.sub(r"[-_.]+", "-", needed.name).lower()
        wanted = frozenset(needed.extras)
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        if name == "nextquery":
            yield from _closure(package, wanted, seen)
            continue
        dependency = _installed(needed)
        yield name, dependency
        yield from _closure(dependency, wanted, seen)


def _applies(needed: Requirement, extras: frozenset[str]) -> bool:
    if needed.marker is None:
        return True
    return any(needed.marker.evaluate({"extra": extra}) for extra in extras or {""})


def _installed(needed: Requirement) -> Distribution:
    try:
        package = distribution(needed.name)
    except PackageNotFoundError:
        raise AssertionError(f"{needed} is not installed where the tests run") from None
    assert needed.specifier.contains(package.version, prereleases=True), (needed, package.version)
    return package


def _link(package: Distribution, site: Path) -> None:
    """Link what a distribution put next to its metadata: packages, modules, libraries."""
    files: Any = package.files or ()
    for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
        source = Path(str(package.locate_file(top)))
        target = site / top
        if source.exists() and not target.exists():
            target.symlink_to(source)
