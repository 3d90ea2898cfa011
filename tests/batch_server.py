"""An OpenAI-compatible server on 127.0.0.1 with files and batches for tests, with real HTTP and scripted replies."""

import email
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from tests.http_server import HTTPAnswer, HTTPRequest, HTTPServerThread
from tests.llm_server import clerk

Refusal = tuple[int, dict[str, Any]]


class BatchServer(HTTPServerThread):
    """A server that replies to chat completions and responses, live and in batches.

    Attributes:
        model: returns the text of the reply to the last message.
        polls: the number of times that a batch is retrieved before it ends.
        refuse: returns the status and the error for the body of a request; None to reply.
        expire: returns True if a request of a batch expires; the arguments are its body and the number of its batch.
        ends: the status in which a batch ends, by its number; default: "completed".
        lost: the number of further batches that are created although the client gets an error.
        without: the methods and paths that the server does not support, such as "POST /batches".
        usage: whether replies have numbers of tokens.
        age_s: the age of new batches in seconds: their creation time is this much in the past.
        happens: called before each response with the name of the event: "upload", "create", "retrieve", "list" or
            "content".
        spoiled: statuses and bodies of the next responses, by event, in place of the right ones.
        change_file: returns what is sent in place of the content of a file.
        live: the bodies of live requests.
        uploads: the records of each uploaded file, in order.
        batches: the batch objects by id, in the order of their creation.
        files: the contents of files by id.
        events: the names of all events so far.
    """

    def __init__(self, model: Callable[[str], str] = clerk) -> None:
        super().__init__()
        self.model = model
        self.polls = 0
        self.refuse: Callable[[dict[str, Any]], Refusal | None] = lambda _: None
        self.expire: Callable[[dict[str, Any], int], bool] = lambda *_: False
        self.ends: dict[int, str] = {}
        self.lost = 0
        self.without: set[str] = set()
        self.usage = True
        self.age_s = 0
        self.happens: Callable[[str], None] = lambda _: None
        self.spoiled: dict[str, list[tuple[int, Any]]] = {}
        self.change_file: Callable[[bytes], bytes] = lambda content: content
        self.live: list[dict[str, Any]] = []
        self.uploads: list[list[dict[str, Any]]] = []
        self.batches: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.events: list[str] = []
        self._polled: dict[str, int] = {}
        self._lock = threading.RLock()
        self.url = f"{self.origin}/v1"

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of the requests in all batches, in order."""
        return [line["body"] for batch in self.batches.values() for line in self.lines(batch)]

    def lines(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the response to one request."""
        refusal = self.refuse(body)
        if refusal is not None:
            return refusal[0], {"error": refusal[1]}
        messages = body["messages"] if path.endswith("completions") else body["input"]
        text = self.model(messages[-1]["content"])
        if path.endswith("completions"):
            message = {"role": "assistant", "content": text}
            answer: dict[str, Any] = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
            counts = {"prompt_tokens": 10, "completion_tokens": 2}
        else:
            part = {"type": "output_text", "text": text}
            answer = {"status": "completed", "output": [{"type": "message", "content": [part]}]}
            counts = {"input_tokens": 10, "output_tokens": 2}
        return 200, {"id": "1", "model": body["model"], **answer, **({"usage": counts} if self.usage else {})}

    def respond(self, request: HTTPRequest) -> HTTPAnswer:
        status, body = self._handle(
            request.method, request.content, urlsplit(request.target), request.headers
        )
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return status, {"content-type": "application/json"}, data

    def _handle(
        self, method: str, content: bytes, url: SplitResult, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        """Return the status and the body of the response to an HTTP request; bytes are sent unchanged."""
        path = url.path.removeprefix("/v1")
        if any(f"{method} {path}".startswith(unsupported) for unsupported in self.without):
            return 404, {"error": {"message": f"Invalid URL ({method} {url.path})"}}
        if path in {"/chat/completions", "/responses"}:
            body = json.loads(content)
            self.live.append(body)
            return self.reply(path, body)
        with self._lock:
            if (method, path) == ("POST", "/files"):
                event, answer = "upload", (200, self._upload(content, headers["content-type"]))
            elif (method, path) == ("POST", "/batches"):
                event, answer = "create", self._create(json.loads(content))
            elif path == "/batches":
                event, answer = "list", (200, self._list(parse_qs(url.query)))
            elif path.startswith("/batches/"):
                event, answer = "retrieve", self._retrieve(path.removeprefix("/batches/"))
            else:
                event, answer = "content", (200, self.change_file(self._content(path.split("/")[2])))
            return self.spoiled[event].pop(0) if self.spoiled.get(event) else answer

    def _event(self, name: str) -> None:
        self.events.append(name)
        self.happens(name)

    def _upload(self, content: bytes, kind: str) -> dict[str, Any]:
        form = email.message_from_bytes(b"content-type: " + kind.encode() + b"\n\n" + content)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
        assert parts["purpose"].get_payload(decode=True) == b"batch"
        data = parts["file"].get_payload(decode=True)
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = data
        self.uploads.append([json.loads(line) for line in data.splitlines()])
        self._event("upload")
        return {"id": file_id, "object": "file", "purpose": "batch", "bytes": len(data), "filename": "f"}

    def _create(self, body: dict[str, Any]) -> tuple[int, Any]:
        assert body["completion_window"] == "24h"
        batch_id = f"batch-{len(self.batches) + 1}"
        total = len(self.files[body["input_file_id"]].splitlines())
        self.batches[batch_id] = {
            "id": batch_id,
            "object": "batch",
            "created_at": int(time.time()) - self.age_s,
            "status": "validating",
            "request_counts": {"total": total, "completed": 0, "failed": 0},
            **body,
        }
        self._event("create")
        if self.lost:
            self.lost -= 1
            return 500, {"error": {"message": "something went wrong"}}
        return 200, self.batches[batch_id]

    def _list(self, query: dict[str, list[str]]) -> dict[str, Any]:
        self._event("list")
        newest = list(self.batches.values())[::-1]
        if "after" in query:
            ids = [batch["id"] for batch in newest]
            newest = newest[ids.index(query["after"][0]) + 1 :]
        page = newest[: int(query.get("limit", ["20"])[0])]
        return {"object": "list", "data": page, "has_more": len(page) < len(newest)}

    def _retrieve(self, batch_id: str) -> tuple[int, Any]:
        self._event("retrieve")
        if batch_id not in self.batches:
            return 404, {"error": {"message": "no such batch"}}
        batch = self.batches[batch_id]
        self._polled[batch_id] = self._polled.get(batch_id, 0) + 1
        if self._polled[batch_id] <= self.polls:
            batch["status"] = "in_progress"
        elif "output_file_id" not in batch:
            self._end(batch, list(self.batches).index(batch_id) + 1)
        return 200, batch

    def _end(self, batch: dict[str, Any], number: int) -> None:
        status = self.ends.get(number, "completed")
        batch["output_file_id"] = batch["error_file_id"] = None
        if status == "failed":
            errors = [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "line": 1}]
            batch |= {"status": "failed", "errors": {"object": "list", "data": errors}}
            return
        out, err = [], []
        for line in self.lines(batch):
            result = {"id": "r", "custom_id": line["custom_id"], "response": None, "error": None}
            if self.expire(line["body"], number) or status == "cancelled":
                status = status if status == "cancelled" else "expired"
                error = {
                    "code": f"batch_{status}",
                    "message": f"This request could not be executed: {status}",
                }
                err.append(result | {"error": error})
                continue
            code, body = self.reply(line["url"], line["body"])
            result["response"] = {"status_code": code, "request_id": "r", "body": body}
            (out if code == 200 else err).append(result)
        for name, lines in (("output", out), ("error", err)):
            if lines:
                file_id = f"file-{len(self.files) + 1}"
                # In reverse order, because clients must not rely on the order of the results.
                text = "".join(json.dumps(line) + "\n" for line in reversed(lines))
                self.files[file_id] = text.encode()
                batch[f"{name}_file_id"] = file_id
        total = len(out) + len(err)
        batch["request_counts"] = {"total": total, "completed": len(out), "failed": len(err)}
        batch["status"] = status

    def _content(self, file_id: str) -> bytes:
        self._event("content")
        return self.files[file_id]
