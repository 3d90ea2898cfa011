"""Elasticsearch: the real client. The server is a small one on this machine that answers in Elasticsearch's form."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from elasticsearch import Elasticsearch

from handbook import PASSAGES


class Search(BaseHTTPRequestHandler):
    """Answers `POST /passages/_search` with a `match` query on the field `text`."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        words = set(re.findall(r"\w+", asked["query"]["match"]["text"].lower()))
        scores = {name: len(words & set(re.findall(r"\w+", text.lower()))) for name, text in PASSAGES.items()}
        found = [name for name in sorted(scores, key=scores.get, reverse=True) if scores[name]]
        hits = [
            {
                "_index": "passages",
                "_id": name,
                "_score": float(scores[name]),
                "_source": {"text": PASSAGES[name]},
            }
            for name in found[: asked.get("size", 10)]
        ]
        total = {"value": len(found), "relation": "eq"}
        shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
        best = hits[0]["_score"] if hits else None
        answer = {"took": 1, "timed_out": False, "_shards": shards}
        answer["hits"] = {"total": total, "max_score": best, "hits": hits}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("X-elastic-product", "Elasticsearch")
        self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Search)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = Elasticsearch(f"http://127.0.0.1:{server.server_port}")
