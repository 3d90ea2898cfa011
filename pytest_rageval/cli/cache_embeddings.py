"""What the commands of `rageval cache` do with the embeddings beside the replies."""

from pathlib import Path
from typing import Any

from pytest_rageval.cli.show import count, date, note, say, size
from pytest_rageval.embeddings.file import FILE
from pytest_rageval.embeddings.upkeep import Survey, delete_damaged, delete_older, survey
from pytest_rageval.errors import StoreError
from pytest_rageval.llm.database import FILE as REPLIES

__all__ = ["alone", "as_json", "info", "prune", "verify"]


def alone(directory: Path) -> bool:
    """Whether a folder has embeddings and no replies, as a project that asks no model has."""
    return (directory / FILE).is_file() and not (directory / REPLIES).exists()


def info(directory: Path) -> None:
    """Say how many are kept, where there is a file of them."""
    kept = _survey(directory)
    if kept is None:
        return
    span = (
        f"; the oldest kept {date(kept.written[0])}, the newest {date(kept.written[-1])}"
        if kept.written
        else ""
    )
    say(f"{directory}: {count(kept.embeddings, 'embedding')}, {size(kept.bytes)} on disk{span}")
    if kept.damaged:
        note(
            f"{count(kept.damaged, 'damaged embedding')} not counted. `rageval cache verify --repair` deletes such."
        )


def as_json(directory: Path) -> dict[str, Any] | None:
    """The same for programs; None where there is no file that can be read."""
    kept = _survey(directory)
    if kept is None:
        return None
    return {
        "bytes": kept.bytes,
        "embeddings": kept.embeddings,
        "damaged": kept.damaged,
        "oldest": date(kept.written[0]) if kept.written else None,
        "newest": date(kept.written[-1]) if kept.written else None,
    }


def prune(directory: Path, until: float, *, dry: bool) -> None:
    """Delete those kept before a time, where there is a file of them.

    Raises:
        StoreError: it cannot be written.
    """
    kept = _survey(directory)
    if kept is None:
        return
    old = sum(at < until for at in kept.written) if dry else delete_older(directory, until)
    verb = "would be deleted" if dry else "deleted"
    say(f"{directory}: {old:,} of {count(kept.embeddings, 'embedding')} {verb}")


def verify(directory: Path, *, mend: bool) -> int:
    """Look for damage, where there is a file of them.

    Returns:
        How many faults were found, also where they were repaired.

    Raises:
        StoreError: it is to be repaired and cannot be written.
    """
    file = directory / FILE
    try:
        kept = survey(directory)
    except StoreError as error:
        say(f"{file}: damaged: {error}")
        return 1
    if kept is None:
        return 0
    say(f"{file}: {count(kept.embeddings, 'good embedding')}, {count(kept.damaged, 'damaged entry')}")
    if kept.damaged and mend:
        delete_damaged(directory)
        say(f"deleted: {count(kept.damaged, 'damaged embedding')}")
    elif kept.damaged:
        note(
            "`rageval cache verify --repair` deletes them; runs pass over them and encode their texts again."
        )
    return kept.damaged


def _survey(directory: Path) -> Survey | None:
    """None, with a note, where the file cannot be read: the replies are told all the same."""
    try:
        return survey(directory)
    except StoreError as error:
        note(str(error))
        return None
