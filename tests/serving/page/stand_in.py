"""A small HTTP server with the interface that the page uses, and canned answers without a model.

The answers are made from the request, so that offsets and numbers of masks or lines fit the text.
"""

from __future__ import annotations

import base64
import json
import math
import mimetypes
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import numpy as np

PAGE = Path(__file__).parents[3] / "bert_keras" / "serving" / "page"
POLICY = "default-src 'self'; img-src 'self' data:"
LAYERS, HEADS, MAX_LENGTH = 12, 12, 128
SAVED_MODEL = "reviews-saved"
SAVED_ANSWERS = "answers-saved"
OTHER = "someone-elses"
PAIRS = "entailment"
CROSS_ENCODER = "cross-encoder"
DOT = "products"  # compares vectors by the dot product
BOTH = "reviews-of-pairs"  # reads pairs by default, and single texts too
# Model -> task; the other models have one text or two as in `_describe`.
MODELS = {
    "reviews": "text_classification",
    "topics": "multi_label_classification",
    "stars": "text_regression",
    PAIRS: "pair_classification",
    "names": "token_classification",
    "answers": "question_answering",
    SAVED_ANSWERS: "question_answering",
    "endings": "multiple_choice",
    "meaning": "sentence_similarity",
    "vectors": "feature_extraction",
    "words": "fill_mask",
    "bert": "pretraining",
    SAVED_MODEL: "text_classification",
    CROSS_ENCODER: "sentence_similarity",
    DOT: "sentence_similarity",
    BOTH: "text_classification",
    OTHER: "other",
}
LABELS = {
    "text_classification": ["negative", "positive"],
    "pair_classification": ["entailment", "neutral", "contradiction"],
    "token_classification": ["PER", "LOC", "ORG", "MISC"],
    "multi_label_classification": [
        *("politics", "economy", "science", "sports", "weather", "music", "film", "books"),
        *("travel", "food", "health", "education", "technology", "law", "religion", "fashion"),
        *("gardening", "space exploration", "local news and announcements", "obituaries"),
    ],
}
FILLS = ["paris", "lyon", "##ing", "france", "rome", "nice", "home", "them", "here", "berlin"]


class StandIn:
    """State of the server: the token it wants, the errors it answers next, and what it was sent."""

    def __init__(self) -> None:
        self.url = ""
        self.token: str | None = None
        self.failures: list[tuple[int, str, dict[str, str]]] = []
        self.delay = 0.0  # seconds before an answer to a POST request
        self.labels: dict[str, list[str]] = dict(LABELS)
        self.sent: list[tuple[str, Any]] = []  # path and body of each POST request

    def models(self) -> list[dict[str, Any]]:
        return [self._describe(name, task) for name, task in MODELS.items()]

    def _describe(self, name: str, task: str) -> dict[str, Any]:
        vectors = task in ("sentence_similarity", "feature_extraction") and name != CROSS_ENCODER
        saved, other = name in (SAVED_MODEL, SAVED_ANSWERS, OTHER), name == OTHER
        pair = ["text", "pair"]
        inputs = {
            "pair_classification": pair,
            "question_answering": ["question", "context"],
            "multiple_choice": ["prompt", "options"],
        }
        why_not = {"attention": "A SavedModel has no attention outputs. Serve its checkpoint."}
        if other:
            why_not["answer"] = "This SavedModel was written by other code. Call it with :predict."
        return {
            "name": name,
            "task": task,
            "inputs": pair if name in (CROSS_ENCODER, BOTH) else inputs.get(task, ["text"]),
            "takes_pairs": name in ("reviews", BOTH),
            "kind": "saved_model" if saved else "checkpoint",
            "format": "saved_model" if saved else "checkpoint",
            "version": "1",
            "labels": self.labels.get(task),
            "similarity": "dot" if name == DOT else "cosine",
            "max_length": None if other else MAX_LENGTH,
            "mask_token": "[MASK]" if task in ("fill_mask", "pretraining") else None,
            "backend": "tensorflow" if saved else "torch",
            "dtype": "float32",
            "can": {
                "answer": not other,
                "tokens": True,
                "attention": not saved,
                "similarity": task in ("sentence_similarity", "feature_extraction"),
                "search": vectors,
            },
            "why_not": why_not if saved else {},
        }

    def reply(self, path: str, body: Any) -> Any:
        """Return the JSON of an answer to a POST request."""
        if path == "/v1/embeddings":
            texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
            return {"data": [{"embedding": _vector(text, 8)} for text in texts]}
        if path == "/v1/rerank":
            documents = body["documents"]
            scores = [_cosine(body["query"], document) for document in documents]
            order = sorted(range(len(scores)), key=lambda index: -scores[index])
            return {"results": [{"index": i, "relevance_score": scores[i]} for i in order]}
        if body.get("signature_name") == "similarity":
            return {"predictions": [_cosine(*body["instances"][0].values())]}
        if match := re.fullmatch(r"/v1/models/(.+):predict", path):
            return {"predictions": [{"model": match[1]}]}
        match = re.fullmatch(r"/api/models/(.+)/(\w+)", path)
        assert match
        model, action = match[1], match[2]
        if action == "tokens":
            tokens = tokenize(body["text"], body.get("pair"))
            return {"tokens": tokens[:MAX_LENGTH], "truncated": len(tokens) > MAX_LENGTH}
        if action == "attention":
            tokens = [token["token"] for token in tokenize(body["text"], body.get("pair"))]
            return attention(tokens[:MAX_LENGTH])
        facts = {"milliseconds": 12.3, "version": "1"}
        if action == "search":
            scores = [_similarity(body["query"], line) for line in body["lines"]]
            order = sorted(range(len(scores)), key=lambda index: -scores[index])
            results = [{"index": index, "score": scores[index]} for index in order]
            return {"results": results, "truncated": False, **facts}
        length = len(json.dumps(body["inputs"], ensure_ascii=False))
        answer = self._answer(MODELS[model], body["inputs"], body.get("top_k") or 1)
        words = {"tokens": 8, "unknown": 6 if "zzz" in str(body["inputs"]) else 0}
        return {"answer": answer, "truncated": length > 4000, "words": words, **facts}

    def _answer(self, task: str, inputs: dict[str, Any], top_k: int) -> Any:
        text = inputs.get("text", "")
        if task in LABELS and task != "token_classification":
            names = self.labels[task]
            first = sum(map(ord, text)) % len(names)
            names = [*names[first:], *names[:first]]
            scores = [0.91 * 0.62**n for n in range(len(names))]
            chosen = names[: 2 if task.startswith("multi") else 1]
            pairs = zip(names, scores, strict=True)
            return {"labels": [{"label": n, "score": s} for n, s in pairs], "chosen": chosen}
        if task == "text_regression":
            return {"scores": [-3.25]}
        if task == "token_classification":
            return {"entities": entities(text, self.labels[task])}
        if task == "question_answering":
            return {"answers": spans(inputs["context"], top_k)}
        if task == "multiple_choice":
            scores = [1 / 2 ** (n + 1) for n in range(len(inputs["options"]))]
            return {"index": 0, "text": inputs["options"][0], "scores": scores}
        if task in ("fill_mask", "pretraining"):
            fills = [
                {"token": token, "token_id": 100 + n, "score": 0.6 * 0.5**n}
                for n, token in enumerate(FILLS[:top_k])
            ]
            return {"masks": [fills] * text.count("[MASK]")}
        if "pair" in inputs:
            return {"similarity": _similarity(text, inputs["pair"])}
        return {"vector": _vector(text, 384)}


def tokenize(text: str, pair: str | None = None) -> list[dict[str, Any]]:
    """Return tokens as a WordPiece tokenizer would: words in pieces of at most six characters."""
    tokens = [_special("[CLS]", 101, 0)]
    for segment, part in enumerate([text, pair]):
        if part is None:
            continue
        for word in re.finditer(r"\w+|[^\w\s]", part):
            for start in range(word.start(), word.end(), 6):
                end = min(start + 6, word.end())
                piece = ("##" if start > word.start() else "") + part[start:end].lower()
                number = 1000 + sum(map(ord, piece)) % 29000
                place = {"start": start, "end": end, "segment": segment, "special": False}
                tokens.append({"token": piece, "id": number, **place})
        tokens.append(_special("[SEP]", 102, segment))
    return tokens


def _special(token: str, number: int, segment: int) -> dict[str, Any]:
    place = {"start": None, "end": None, "segment": segment, "special": True}
    return {"token": token, "id": number, **place}


def attention(tokens: list[str]) -> dict[str, Any]:
    """Return weights of several usual kinds: the next token, the same token, [SEP], and others."""
    count = len(tokens)
    places = np.arange(count)
    distance = places[None, :] - places[:, None]
    random = np.random.default_rng(0)
    logits = random.normal(size=(LAYERS, HEADS, count, count)) * 1.5
    for layer in range(LAYERS):
        for head in range(HEADS):
            kind = (layer * 3 + head * 7) % 5
            logits[layer, head] -= 0.9 * np.abs(distance - (kind - 2)) if kind < 3 else 0.0
            logits[layer, head, :, [0, -1]] += 4.0 if kind == 3 else 0.0
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    data = base64.b64encode(np.round(255 * weights).astype(np.uint8).tobytes()).decode()
    return {"tokens": tokens, "layers": LAYERS, "heads": HEADS, "attention": data}


def entities(text: str, labels: list[str]) -> list[dict[str, Any]]:
    """Return the words with a capital letter as entities, one label after the other."""
    words = re.finditer(r"\b[A-Z]\w+(?: [A-Z]\w+)*", text)
    return [
        {
            "label": labels[n % len(labels)],
            "text": word[0],
            "start": word.start(),
            "end": word.end(),
            "score": 0.97 - 0.01 * n,
        }
        for n, word in enumerate(words)
    ]


def spans(context: str, top_k: int) -> list[dict[str, Any]]:
    """Return pairs of words from the end of the context as answers, the best first."""
    words = [*re.finditer(r"\w+ \w+", context)][::-1][:top_k]
    return [
        {
            "text": word[0],
            "start": word.start(),
            "end": word.end(),
            "score": 0.7 * 0.4**n,
            "null_score": -5.21,
        }
        for n, word in enumerate(words)
    ]


def _vector(text: str, size: int) -> list[float]:
    random = np.random.default_rng(sum(map(ord, text)))
    vector = random.normal(size=size)
    return (vector / np.linalg.norm(vector)).tolist()


def _cosine(one: str, other: str) -> float:
    """Return the cosine of two vectors, by the formula of the copied code."""
    a, b = _vector(one, 8), _vector(other, 8)
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def _similarity(one: str, other: str) -> float:
    ours, theirs = ({*re.findall(r"\w+", text.lower())} for text in (one, other))
    return round(len(ours & theirs) / max(1, len(ours | theirs)) * 1.2 + 0.12, 4)


@contextmanager
def running() -> Iterator[StandIn]:
    """Run the server on a free port of this machine until the end of the block."""
    state = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            name = "index.html" if self.path == "/" else self.path.removeprefix("/static/")
            path = PAGE / Path(name).name
            if self.path == "/api/models":
                self._api(lambda: {"models": state.models()})
            elif path.is_file() and self.path in ("/", f"/static/{path.name}"):
                kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
                self._send(200, path.read_bytes(), kind)
            else:
                self._send(404, b'{"error": "no such path"}', "application/json")

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            body, path = json.loads(content), unquote(self.path)
            state.sent.append((path, body))
            time.sleep(state.delay)
            self._api(lambda: state.reply(path, body))

        def _api(self, reply: Any) -> None:
            if state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
                self._json(401, {"error": "Send the token of this server."})
            elif state.failures:
                status, message, headers = state.failures.pop(0)
                self._json(status, {"error": message}, headers)
            else:
                self._json(200, reply())

        def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
            self._send(status, json.dumps(value).encode(), "application/json", headers)

        def _send(
            self, status: int, content: bytes, kind: str, headers: dict[str, str] | None = None
        ) -> None:
            self.send_response(status)
            policy = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
            length = {"Content-Type": kind, "Content-Length": str(len(content))}
            for name, value in {**policy, **length, **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore browsers that end a connection early, as an aborted request does."""

    server = Server(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def weights_of(reply: dict[str, Any]) -> np.ndarray:
    """Return the attention weights of a reply: float [layers, heads, from, to]."""
    count = len(reply["tokens"])
    values = np.frombuffer(base64.b64decode(reply["attention"]), np.uint8)
    return values.reshape(reply["layers"], reply["heads"], count, count) / 255
