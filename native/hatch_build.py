"""Compiles the kernels when a wheel is built: g++ or clang++ is all that is needed.

The library has a plain C interface and is opened with ctypes, so one wheel serves every Python of a
platform. The kernels for AVX2 and AVX-512 are compiled for x86 only and chosen when the library is
loaded.
"""

import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = (
    *("-O3", "-std=c++17", "-fPIC", "-pthread", "-fvisibility=hidden"),
    *("-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wextra", "-Wno-psabi"),
)
X86 = ("x86_64", "amd64")
AVX512 = [
    *("-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"),
    *("-mprefer-vector-width=512", "-Wno-maybe-uninitialized"),  # GCC 12 warns in its own header
]


class CompiledKernels(BuildHookInterface[Any]):
    """Puts the shared library beside the package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the platform in the wheel."""
        root = Path(self.root)
        target = root / "nextquery_native" / "libnextquery_native.so"
        compile_kernels(root / "kernels", target)
        build_data["artifacts"].append(f"nextquery_native/{target.name}")
        build_data["pure_python"] = False
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{system}"


def compile_kernels(sources: Path, target: Path) -> None:
    """Compile the kernels into a shared library."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError("no C++ compiler: install g++ or set CXX (nextquery runs without this)")
    x86 = platform.machine().lower() in X86
    parts = {"baseline": [], "threads": [], "dispatch": ["-fvisibility=default"]}
    if x86:
        parts["avx2"] = ["-mavx2", "-mfma"]
        parts["avx512"] = AVX512
        parts["dispatch"].append("-DNEXTQUERY_X86")
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for name, flags in parts.items():
            made = f"{folder}/{name}.o"
            source = str(sources / f"{name}.cpp")
            subprocess.run([compiler, *FLAGS, *flags, "-c", source, "-o", made], check=True)
            objects.append(made)
        subprocess.run([compiler, "-shared", "-pthread", *objects, "-o", str(target)], check=True)
