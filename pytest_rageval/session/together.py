"""What the processes of one run have in common, and what each of them may therefore ask of models."""

import uuid
from dataclasses import dataclass, field

from pytest_rageval.config import Settings
from pytest_rageval.llm.budget import Limits
from pytest_rageval.llm.door import Access
from pytest_rageval.llm.live import Pace

__all__ = ["Together", "access"]


@dataclass(frozen=True, slots=True)
class Together:
    """What the processes of one run have in common.

    Attributes:
        run: a name of it.
        workers: how many processes run tests.
    """

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    workers: int = 1


def access(settings: Settings, together: Together) -> Access:
    """How the options want models to be reached."""
    # A rate is that of the whole run; its processes do not know of each other's requests.
    share = 1 / together.workers
    return Access(
        cache_dir=settings.cache_dir,
        cassette=settings.cassette,
        mode="plan" if settings.plan else "replay" if settings.replay else "live",
        run=together.run,
        refresh=settings.refresh,
        record=settings.record,
        prompts=settings.record_prompts,
        pace=Pace(
            concurrency=settings.concurrency,
            timeout_s=settings.timeout,
            retries=settings.retries,
            rpm=settings.rpm and settings.rpm * share,
            tpm=settings.tpm and settings.tpm * share,
            patience_s=settings.patience,
        ),
        limits=Limits(settings.max_calls, settings.max_cost),
        prices=settings.prices,
    )
