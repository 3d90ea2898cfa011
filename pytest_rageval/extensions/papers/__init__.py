"""The settings of five papers as presets, such as `--rageval preset=han2024`: options, and prompts in our own words."""

from pathlib import Path
from typing import Final

PRESETS: Final = dict.fromkeys(
    ("alinejad2024", "salemi2024", "garigliotti2024", "han2024", "gulsoy2024"),
    Path(__file__).with_name("presets.toml"),
)
