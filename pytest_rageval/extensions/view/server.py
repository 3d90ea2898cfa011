"""The server of `rageval view`, on 127.0.0.1. Other web pages, and other users of the machine, cannot use it.

A request needs the token that is a part of the page's address, and the host that the server listens on, so that a page
whose name is made to resolve to 127.0.0.1 has no access. A request that writes also needs the page as its origin.
"""

import argparse
import json
import secrets
import socket
import webbrowser
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_rageval.cli.console import echo
from pytest_rageval.core.errors import InputError, require
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.extensions.view import live_file
from pytest_rageval.lib.files import write_json_lines
from pytest_rageval.reports.document import EvaluatedQuestion, ReportDocument
from pytest_rageval.reports.html.page import html_report
from pytest_rageval.reports.reading import read_report
from pytest_rageval.run.registry import Registry

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pytest_rageval.extensions.history.history import Run


LOOPBACK: Final = "127.0.0.1"
PURPOSE: Final = "rageval view"
TOKEN_BYTES: Final = 16
MAX_BODY: Final = 100_000  # bytes of a verdict
SHOWN_RUNS: Final = 8

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


VERDICTS: Final[Mapping[str, object]] = {"right": True, "wrong": False, "unclear": "unclear"}
KEYS: Final = ("question", "references", "prediction")  # that identify a labelled answer


def view_command(options: argparse.Namespace) -> int:
    uvicorn = require("uvicorn", extra="gateway", purpose=PURPOSE)
    viewer = Viewer(options.file, labels=options.labels, history=options.history)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, options.port))
            listener.listen()
        except OSError as error:
            raise InputError(
                f"Port {options.port} cannot be used: {error.strerror or error}.\n"
                "Name another: --port N; 0 is a free one."
            ) from None
        viewer.port = listener.getsockname()[1]
        echo(f"{options.file}: {viewer.url}\nlabels: {options.labels}\nstop with Ctrl-C")
        if options.open:
            webbrowser.open(viewer.url)
        config = uvicorn.Config(
            viewer.application(),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
        )
        live = live_file(options.file)
        try:
            live.touch()
            with suppress(KeyboardInterrupt):
                uvicorn.Server(config).run([listener])
        finally:
            live.unlink(missing_ok=True)
    return 0


class Viewer:
    def __init__(self, report: Path, *, labels: Path, history: Path | None) -> None:
        self.port = 0
        self.token: str = secrets.token_urlsafe(TOKEN_BYTES)
        self._report = report
        self._labels = LabelFile(labels)
        self._history = history
        self._version = ""
        self._page = ""
        self._answers: dict[str, Answer] = {}
        self._load()
        self._runs()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def application(self) -> Any:
        require("starlette", extra="gateway", purpose=PURPOSE)
        from starlette.applications import Starlette  # noqa: PLC0415 - of an extra
        from starlette.routing import Route  # noqa: PLC0415

        prefix = f"/{self.token}"
        return Starlette(
            routes=[
                Route(f"{prefix}/", self._guarded(self._show)),
                Route(f"{prefix}/history", self._guarded(self._show_history)),
                Route(f"{prefix}/state", self._guarded(self._state)),
                Route(f"{prefix}/labels", self._guarded(self._label), methods=["POST"]),
            ]
        )

    def _guarded(self, handler: "Callable[[Request], Awaitable[str | dict[str, object]]]") -> Any:
        from starlette.responses import HTMLResponse, JSONResponse  # noqa: PLC0415 - of an extra

        async def guarded(request: "Request") -> "Response":
            own = {f"{name}:{self.port}" for name in (LOOPBACK, "localhost")}
            refusal = ""
            if request.headers.get("host") not in own:
                refusal = "another host"
            elif request.method == "POST" and request.headers.get("origin") not in {
                f"http://{each}" for each in own
            }:
                refusal = "another origin"
            elif request.method == "POST" and request.headers.get("content-type") != "application/json":
                refusal = "another content type than application/json"
            if refusal:
                return JSONResponse({"error": f"This request comes from {refusal}."}, 403, HEADERS)
            try:
                content = await handler(request)
            except (InputError, OSError) as error:
                return JSONResponse({"error": str(error)}, 400, HEADERS)
            response = HTMLResponse if isinstance(content, str) else JSONResponse
            return response(content, headers=HEADERS)

        return guarded

    def _load(self) -> None:
        """Read the report if it has changed. A report that is gone, or half written, leaves the last one."""
        remedy = f"Write one with: pytest --rageval-report {self._report.name}"
        try:
            version = str(self._report.stat().st_mtime_ns)
        except OSError as error:
            if self._page:
                return
            raise InputError(
                f"The report {self._report} cannot be read: {error.strerror}.\n{remedy}"
            ) from None
        if version == self._version:
            return
        document = read_report(self._report)
        script = files(__package__).joinpath("view.js").read_text(encoding="utf-8")
        self._page = html_report(document, server_script=script, added=Registry().tables)
        self._answers = {answer.key: answer for answer in answers(document)}
        self._version = version
        live = live_file(self._report)
        if live.exists():
            live.write_bytes(b"")

    async def _show(self, _: "Request") -> str:
        self._load()
        return self._page

    async def _show_history(self, _: "Request") -> str:
        from pytest_rageval.extensions.history.page import trend_page  # noqa: PLC0415 - imports Jinja2

        return trend_page(self._runs())

    def _runs(self) -> "list[Run]":
        if self._history is None:
            return []
        from pytest_rageval.extensions.history.history import read_history  # noqa: PLC0415 - few have one

        return read_history(self._history)

    async def _state(self, _: "Request") -> dict[str, object]:
        """Return what changes while the page is open: the report, the tests of a run that goes on, runs and labels."""
        with suppress(InputError):
            self._load()
        runs = self._runs()
        return {
            "version": self._version,
            "running": _lines(live_file(self._report)),
            "runs": [_run_entry(run) for run in reversed(runs[-SHOWN_RUNS:])],
            "all_runs": len(runs),
            "answers": [
                {"key": key, "id": answer.question_id, "answer": answer.record["prediction"]}
                for key, answer in self._answers.items()
            ],
            "verdicts": self._labels.verdicts,
        }

    async def _label(self, request: "Request") -> dict[str, object]:
        body = await request.body()
        try:
            asked = json.loads(body[:MAX_BODY])
            answer, verdict = self._answers[asked["key"]], asked["verdict"]
        except (ValueError, KeyError, TypeError):
            raise InputError("The report has no such answer. Load the page again.") from None
        if verdict not in VERDICTS:
            raise InputError(f"The verdict is {verdict!r:.40}; it is one of {', '.join(VERDICTS)}.")
        self._labels.write(answer, verdict)
        return {"verdicts": self._labels.verdicts}


def _lines(path: Path) -> list[dict[str, str]]:
    """Return the tests of a run that goes on; the last line may be half written."""
    with suppress(OSError):
        *whole, _ = path.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in whole]
    return []


def _run_entry(run: "Run") -> dict[str, object]:
    scores: dict[str, float] = {}
    for key, point in run.points.items():
        if point.mean is not None:
            scores.setdefault(key.score, point.mean)
    failed = sum(test.get("outcome") in {"failed", "error"} for test in run.line["tests"].values())
    return {
        "name": run.name,
        "title": run.title or "",
        "time": f"{run.time:%Y-%m-%d %H:%M}",
        "failed": failed,
        "scores": scores,
    }


class Answer(NamedTuple):
    """An answer of a report that can be labelled: the id of its question, and its line without a label."""

    question_id: str
    record: Mapping[str, object]

    @property
    def key(self) -> str:
        return _key(self.record)


def answers(document: ReportDocument) -> Iterator[Answer]:
    """Yield the different answers of a report whose questions have a reference answer."""
    seen = set()
    for test in document["tests"]:
        questions = {question["id"]: question for question in test.get("questions", ())}
        for example in chain.from_iterable(score["examples"] for score in test["scores"]):
            question, answer = questions.get(example["id"]), example.get("answer")
            references = _references(question) if question else []
            if question is None or not answer or not references:
                continue
            record = {
                "id": question["id"],
                "question": question["question"],
                "references": references,
                "prediction": answer,
            }
            found = Answer(question["id"], record)
            if found.key not in seen:
                seen.add(found.key)
                yield found


def _references(question: EvaluatedQuestion) -> list[str]:
    # A labelled answer has only one list of references: each of them is right alone.
    lists = question.get("references", ())
    if len(lists) == 1:
        return [*lists[0]]
    return (
        [" and ".join(aliases[0] for aliases in lists)]
        if lists
        else list(filter(None, [question.get("reference")]))
    )


def _key(record: Mapping[str, object]) -> str:
    texts = json.dumps([record.get(name) for name in KEYS], ensure_ascii=False)
    return sha256(texts.encode(errors="replace")).hexdigest()[:16]


class LabelFile:
    """A file of labelled answers, JSON lines. Lines of other answers stay as they are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, dict[str, object]] = {}
        for place, record in json_records(path) if path.exists() else ():
            if not isinstance(record, dict) or not {"question", "prediction", "human"} <= record.keys():
                raise InputError(
                    f'{place} is no labelled answer: it needs "question", "prediction" and "human".\n'
                    "Name another file: rageval view --labels FILE."
                )
            self._records[_key(record)] = record

    @property
    def verdicts(self) -> dict[str, str]:
        names = {json.dumps(value): name for name, value in VERDICTS.items()}
        pairs = ((key, names.get(json.dumps(record["human"]))) for key, record in self._records.items())
        return {key: name for key, name in pairs if name is not None}

    def write(self, answer: Answer, verdict: str) -> None:
        """Write the verdict on an answer in place of an earlier one."""
        key = answer.key
        record = self._records.get(key, dict(answer.record))
        others = {each.get("id") for other, each in self._records.items() if other != key}
        if record["id"] in others:
            # Another answer to the same question, as of another generator.
            record["id"] = f"{record['id']} {key[:6]}"
        self._records[key] = {**record, "human": VERDICTS[verdict]}
        write_json_lines(self.path, self._records.values())
