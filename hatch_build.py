"""Compiles src/opcal/core/step.c at installation where there is a C compiler; without one opcal is only slower."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/opcal/core/step.c")
FLAGS = ("-O3", "-fno-math-errno", "-fPIC", "-shared")


class Compile(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compiler = shutil.which(os.environ.get("CC", "cc"))
        made = (Path(self.root) / SOURCE).with_name("libstep.so")
        if compiler is None or os.name != "posix":
            return
        command = [compiler, *FLAGS, str(Path(self.root) / SOURCE), "-o", f"{made}.new", "-lm"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            self.app.display_warning("step.c could not be compiled: opcal is installed without it, only slower")
            return
        Path(f"{made}.new").replace(made)  # a running process keeps the old one
        build_data["artifacts"].append("*.so")
        build_data["pure_python"], build_data["infer_tag"] = False, True
