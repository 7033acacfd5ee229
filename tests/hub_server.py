"""A stand-in on loopback for the HTTP interface of the Hugging Face Hub: uploads and downloads."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

TOKEN = "hf_stand_in"  # the only token that it accepts
_LARGE = (".safetensors", ".h5", ".bin")  # files that go by Git LFS


@dataclass
class Repository:
    """A model repository: its visibility, and the files and commit messages of each branch."""

    payload: dict[str, Any]
    branches: dict[str, dict[str, bytes]]
    messages: list[str] = field(default_factory=list)


@dataclass
class Hub:
    """State of the stand-in.

    Attributes:
        endpoint: its address.
        repositories: by "organisation/name".
        requests: method and path of each request, in order.
        refusals: pattern of "METHOD /path" -> status and message of the answer.
    """

    endpoint: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    refusals: dict[str, tuple[int, str]] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)

    def files(self, name: str, branch: str = "main") -> dict[str, bytes]:
        """Return the files of a branch."""
        return self.repositories[name].branches[branch]


@contextmanager
def running() -> Iterator[Hub]:
    """Yield a running stand-in."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(hub))
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def connect(hub: Hub, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let `huggingface_hub` call the stand-in, with its token, and a cache in a folder."""
    constants = pytest.importorskip("huggingface_hub.constants")
    template = hub.endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(folder / "token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)


def _handler_of(hub: Hub) -> type[BaseHTTPRequestHandler]:
    """Return the request handler of a stand-in."""

    class Handler(BaseHTTPRequestHandler):
        """Answers the requests of `huggingface_hub` that an upload and a download send."""

        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            self._answer()

        do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

        def _answer(self) -> None:
            path = unquote(urlsplit(self.path).path)
            call = f"{self.command} {path}"
            hub.requests.append(call)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            for pattern, (status, message) in hub.refusals.items():
                if re.search(pattern, call):
                    return self._json(status, {"error": message})
            is_open = path.startswith(("/objects/", "/api/agent"))
            if not is_open and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self._json(401, {"error": "Invalid username or password."})
            for pattern, method in _ROUTES.items():
                if match := re.fullmatch(pattern, call):
                    return method(self, *match.groups(), body)
            return self._json(404, {"error": "Not found"})

        def _json(self, status: int, values: Any) -> None:
            self._send(status, json.dumps(values).encode(), {"Content-Type": "application/json"})

        def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _branch(self, name: str, branch: str) -> dict[str, bytes] | None:
            found = hub.repositories.get(name)
            commits = {_commit(found, each): each for each in found.branches} if found else {}
            branches = found.branches if found else {}
            return branches.get(commits.get(branch, branch))

        def create(self, body: bytes) -> None:
            """POST /api/repos/create."""
            payload = json.loads(body)
            name = f"{payload['organization']}/{payload['name']}"
            url = f"{hub.endpoint}/{name}"
            if name in hub.repositories:
                return self._json(409, {"error": "You already created this repo", "url": url})
            hub.repositories[name] = Repository(payload, {"main": {".gitattributes": b""}})
            return self._json(200, {"url": url})

        def branch(self, name: str, branch: str, _body: bytes) -> None:
            """POST /api/models/NAME/branch/BRANCH."""
            branches = hub.repositories[name].branches
            if branch in branches:
                return self._json(409, {"error": "Reference already exists"})
            branches[branch] = dict(branches["main"])
            return self._json(200, {})

        def tree(self, name: str, branch: str, _body: bytes) -> None:
            """GET /api/models/NAME/tree/BRANCH."""
            files = self._branch(name, branch)
            if files is None:
                return self._json(404, {"error": "Repository not found"})
            rows = [
                {"type": "file", "path": path, "size": len(content), "oid": _sha(content)}
                for path, content in files.items()
            ]
            return self._json(200, rows)

        def info(self, name: str, branch: str | None, _body: bytes) -> None:
            """GET /api/models/NAME, perhaps with /revision/BRANCH."""
            files = self._branch(name, branch or "main")
            if files is None:
                return self._json(404, {"error": "Repository not found"})
            siblings = [{"rfilename": path} for path in files]
            sha = _commit(hub.repositories[name], branch or "main")
            return self._json(200, {"id": name, "sha": sha, "siblings": siblings})

        def validate(self, body: bytes) -> None:
            """POST /api/validate-yaml."""
            import yaml

            start, *front = json.loads(body)["content"].split("---\n", 2)
            is_valid = bool(start) or isinstance(yaml.safe_load(front[0]), dict)
            errors = [] if is_valid else [{"message": "no YAML"}]
            self._json(200, {"errors": errors, "warnings": []})

        def preupload(self, _name: str, _branch: str, body: bytes) -> None:
            """POST /api/models/NAME/preupload/BRANCH."""
            rows = [
                {
                    "path": row["path"],
                    "uploadMode": "lfs" if row["path"].endswith(_LARGE) else "regular",
                    "shouldIgnore": False,
                }
                for row in json.loads(body)["files"]
            ]
            self._json(200, {"files": rows})

        def batch(self, _name: str, body: bytes) -> None:
            """POST /NAME.git/info/lfs/objects/batch."""
            rows = [
                {
                    **row,
                    "actions": {"upload": {"href": f"{hub.endpoint}/objects/{row['oid']}"}},
                }
                for row in json.loads(body)["objects"]
            ]
            self._json(200, {"transfer": "basic", "objects": rows})

        def put(self, oid: str, body: bytes) -> None:
            """PUT /objects/OID."""
            assert hashlib.sha256(body).hexdigest() == oid
            hub.objects[oid] = body
            self._json(200, {})

        def commit(self, name: str, branch: str, body: bytes) -> None:
            """POST /api/models/NAME/commit/BRANCH."""
            files = dict(hub.files(name, branch))
            for line in body.splitlines():
                item = json.loads(line)
                value = item["value"]
                if item["key"] == "header":
                    hub.repositories[name].messages.append(value["summary"])
                elif item["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif item["key"] == "lfsFile":
                    files[value["path"]] = hub.objects[value["oid"]]
                else:
                    del files[value["path"]]
            hub.repositories[name].branches[branch] = files
            sha = _commit(hub.repositories[name], branch)
            url = f"{hub.endpoint}/{name}/commit/{sha}"
            self._json(200, {"commitUrl": url, "commitOid": sha, "success": True})

        def resolve(self, name: str, branch: str, path: str, _body: bytes) -> None:
            """GET or HEAD /NAME/resolve/BRANCH/PATH."""
            files = self._branch(name, branch)
            if files is None or path not in files:
                code = "RepoNotFound" if files is None else "EntryNotFound"
                return self._send(404, b"", {"X-Error-Code": code})
            repository = hub.repositories[name]
            commits = {_commit(repository, each): each for each in repository.branches}
            headers = {
                "ETag": f'"{_sha(files[path])}"',
                "X-Repo-Commit": _commit(repository, commits.get(branch, branch)),
            }
            return self._send(200, files[path], headers)

    name, rest = r"([^/]+/[^/]+)", r"(.+)"
    _ROUTES = {
        r"POST /api/repos/create": Handler.create,
        r"POST /api/validate-yaml": Handler.validate,
        rf"POST /api/models/{name}/branch/{rest}": Handler.branch,
        rf"GET /api/models/{name}/tree/{rest}": Handler.tree,
        rf"GET /api/models/{name}(?:/revision/{rest})?": Handler.info,
        rf"POST /api/models/{name}/preupload/{rest}": Handler.preupload,
        rf"POST /{name}\.git/info/lfs/objects/batch": Handler.batch,
        r"PUT /objects/(\w+)": Handler.put,
        rf"POST /api/models/{name}/commit/{rest}": Handler.commit,
        rf"(?:GET|HEAD) /{name}/resolve/([^/]+)/{rest}": Handler.resolve,
    }
    return Handler


def _sha(content: bytes) -> str:
    """Return an id of the content of a file."""
    return hashlib.sha1(content).hexdigest()


def _commit(repository: Repository, branch: str) -> str:
    """Return the id of the last commit of a branch."""
    files = repository.branches[branch].items()
    return _sha(repr([branch, *((path, _sha(content)) for path, content in files)]).encode())
