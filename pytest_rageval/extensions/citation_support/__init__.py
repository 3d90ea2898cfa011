"""Do the cited passages support what the answer states? The scores `support.*`."""

from typing import Final

SCORES: Final = {"extensions.citation_support.scores": ("support",)}
