"""Virtual environments for the tools that benchmarks compare this package with."""

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def environment(
    folder: Path, name: str, packages: tuple[str, ...], oldest: tuple[int, int] = (3, 11)
) -> Path:
    """Return the Python of a virtual environment with these packages; create the environment if it does not exist.

    If this project is one of the packages, it is installed again at each call, because its source may have changed.

    Raises:
        SystemError: the packages cannot be installed, or there is no suitable Python.
    """
    home = folder.absolute() / name
    python, marker = home / "bin" / "python", home / "packages.txt"
    if not marker.exists() or marker.read_text(encoding="utf-8") != "\n".join(packages):
        subprocess.run([_interpreter(oldest), "-m", "venv", "--clear", str(home)], check=True)
    elif str(ROOT) not in packages:
        return python
    reinstall_options = ["--force-reinstall", "--no-deps"] if marker.exists() else []
    command = [str(python), "-m", "pip", "install", "-q", *reinstall_options, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemError(done.stderr.strip().splitlines()[-1])
    marker.write_text("\n".join(packages), encoding="utf-8")
    return python


def _interpreter(oldest: tuple[int, int]) -> str:
    for name in (sys.executable, *(f"python3.{minor}" for minor in range(oldest[1], oldest[1] + 4))):
        command = [name, "-c", f"import sys; sys.exit(sys.version_info[:2] < {oldest})"]
        try:
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return name
        except FileNotFoundError:
            continue
    raise SystemError(f"it needs Python {oldest[0]}.{oldest[1]}, and none that can be run is on PATH")
