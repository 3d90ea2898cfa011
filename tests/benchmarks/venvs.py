"""Virtual environments for what benchmarks compare us with."""

import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "environment"]

ROOT: Final = Path(__file__).parents[2]


def environment(
    folder: Path, name: str, packages: tuple[str, ...], oldest: tuple[int, int] = (3, 11)
) -> Path:
    """Return the Python of a virtual environment with these packages, made now or before.

    A checkout is installed again each time, since it changes.

    Raises:
        SystemError: they cannot be installed here.
    """
    home = folder.absolute() / name
    python, marker = home / "bin" / "python", home / "packages.txt"
    if not marker.exists() or marker.read_text(encoding="utf-8") != "\n".join(packages):
        subprocess.run([_interpreter(oldest), "-m", "venv", "--clear", str(home)], check=True)
    elif str(ROOT) not in packages:
        return python
    again = ["--force-reinstall", "--no-deps"] if marker.exists() else []
    command = [str(python), "-m", "pip", "install", "-q", *again, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemError(done.stderr.strip().splitlines()[-1])
    marker.write_text("\n".join(packages), encoding="utf-8")
    return python


def _interpreter(oldest: tuple[int, int]) -> str:
    """Return a Python that is new enough."""
    for name in (sys.executable, *(f"python3.{minor}" for minor in range(oldest[1], oldest[1] + 4))):
        command = [name, "-c", f"import sys; sys.exit(sys.version_info[:2] < {oldest})"]
        try:
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return name
        except FileNotFoundError:
            continue
    raise SystemError(f"it needs Python {oldest[0]}.{oldest[1]}, and none that can be run is on PATH")
