"""Do the cited passages support what the answer states? The scores `support.*`.

- `scores`: their definitions. `statements`: takes an answer apart into statements with their citations.
"""

from typing import Final

SCORES: Final = {"extensions.citation_support.scores": ("support",)}
