"""The server process: it loads models, answers HTTP requests, swaps versions and drains."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn

from bert_keras.errors import ResourceError, UsageError
from bert_keras.serving.app import Access, make_app
from bert_keras.serving.http_connection import HttpConnection
from bert_keras.serving.http_requests import Limits, Service
from bert_keras.serving.metrics import Metrics
from bert_keras.serving.model_source import Options, model_argument
from bert_keras.serving.text_embeddings_inference import first_models
from bert_keras.serving.versions import ServedModel

logger = logging.getLogger("bert_keras.serving")

# Maximum time in seconds, after the drain, for a load of a version and batches that still run.
_LAST_SECONDS = 2.0
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Settings:
    """Settings of a server.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0 for any free port.
        token: token that requests must send; "" if they need none.
        origins: origins whose web pages may send requests (CORS).
        allowed_hosts: names in the header Host that are accepted besides those of this computer;
            () for every name, if the address is not of the loopback interface.
        accepts_token_ids: True if `/v1/embeddings` takes ids of the model's own tokenizer.
        limits: limits of requests.
        options: how models are opened and run.
        poll_seconds: time in seconds between two checks for new versions.
        drain_seconds: maximum time in seconds for open requests after SIGTERM.
    """

    host: str = "127.0.0.1"
    port: int = 8501
    token: str = ""
    origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    accepts_token_ids: bool = False
    limits: Limits = field(default_factory=Limits)
    options: Options = field(default_factory=Options)
    poll_seconds: float = 1.0
    drain_seconds: float = 25.0

    @property
    def is_local(self) -> bool:
        """True if only programs of this computer can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def accepted_hosts(self) -> tuple[str, ...]:
        """Names in the header Host that are accepted, in lower case; () for every name."""
        if not self.is_local and not self.allowed_hosts:
            return ()
        return (*_LOOPBACK_HOSTS, self.host.lower(), *map(str.lower, self.allowed_hosts))


def no_report(name: str) -> None:
    """Ignore the name of the model that is being opened."""
    del name


def load_models(
    arguments: Sequence[str],
    labels: Sequence[str] = (),
    *,
    options: Options,
    report: Callable[[str], None] = no_report,
) -> dict[str, ServedModel]:
    """Open the models of the command line, in order.

    Args:
        arguments: PATH or NAME=PATH of each model.
        labels: NAME:LABEL=VERSION of each version label.
        options: how models are opened and run.
        report: function that is called with the name of each model before it is opened.

    Returns:
        Name -> model.

    Raises:
        UsageError: if a name is given twice, a label names no model, or a model cannot be served.
        ArtifactError: if a model is damaged.
    """
    sources: dict[str, str] = {}
    for argument in arguments:
        name, source = model_argument(argument)
        if name in sources:
            raise UsageError(
                f"Two models have the name {name}: {sources[name]} and {source}. Give one of them "
                f"another name: OTHER={source}"
            )
        sources[name] = source
    version_labels = labels_from(labels, sources)
    models: dict[str, ServedModel] = {}
    try:
        for name, source in sources.items():
            report(name)
            models[name] = ServedModel(name, source, version_labels.get(name), options=options)
    except BaseException:
        for model in models.values():
            model.close()
        raise
    return models


def labels_from(labels: Sequence[str], names: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return model name -> version label -> version number, from NAME:LABEL=VERSION.

    Args:
        labels: arguments of --label.
        names: names of the models, as keys.

    Raises:
        UsageError: if a label has another form, or names no model.
    """
    version_labels: dict[str, dict[str, int]] = {}
    for text in labels:
        left, _, number = text.rpartition("=")
        name, _, label = left.partition(":")
        if not label or not number.isdecimal():
            raise UsageError(
                f"--label must be NAME:LABEL=VERSION, such as reviews:stable=2. Received: {text}"
            )
        if name not in names:
            raise UsageError(
                f"--label {text}: there is no model {name}. Models: {', '.join(names)}"
            )
        version_labels.setdefault(name, {})[label] = int(number)
    return version_labels


def listen(settings: Settings) -> socket.socket:
    """Return a socket that listens on the address of the settings.

    Raises:
        ResourceError: if the port is taken, or this computer does not have the address.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
        bound.listen(2048)
    except (OSError, OverflowError, UnicodeError) as error:
        bound.close()
        raise ResourceError(
            f"Cannot listen on {settings.host}:{settings.port}: {error}. Choose another port with "
            "--port, or another address with --host."
        ) from error
    return bound


class Server:
    """An HTTP server of loaded models.

    Args:
        models: name -> model.
        settings: settings of the server.
        metrics: metrics that also count the batches of the models; None for new metrics.

    Attributes:
        service: models and limits, as the protocols see them.
        app: the ASGI application, for other HTTP servers and for tests.
    """

    def __init__(
        self, models: dict[str, ServedModel], settings: Settings, metrics: Metrics | None = None
    ):
        self.settings = settings
        self.service = Service(
            models, settings.limits, accepts_token_ids=settings.accepts_token_ids
        )
        access = Access(settings.token, settings.origins, settings.accepted_hosts)
        self.app = make_app(self.service, metrics or Metrics(), access)
        self._stopping = threading.Event()
        self._server: _Uvicorn | None = None

    def run(self, bound: socket.socket) -> None:
        """Answer requests until SIGTERM or SIGINT; then finish the open requests, and return.

        Call it in the main thread, because Python handles signals there.

        Args:
            bound: a listening socket; see `listen`.
        """
        config = uvicorn.Config(
            self.app,
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=max(1, round(self.settings.drain_seconds)),
        )
        self._server = _Uvicorn(config, self.service)
        # uvicorn handles the signals only while it runs. A signal before that must not be lost. At
        # its end, uvicorn raises the signals again, which must not end the process.
        handlers: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                handlers[number] = signal.signal(number, lambda *_: self.stop())
        watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        watcher.start()
        try:
            self._server.run([bound])
        finally:
            self._stopping.set()
            deadline = time.monotonic() + _LAST_SECONDS
            watcher.join(_LAST_SECONDS)
            for model in self.service.models.values():
                model.close(max(0.0, deadline - time.monotonic()))
            for number, handler in handlers.items():
                if handler is not None:  # a handler that was not set in Python cannot be restored
                    signal.signal(number, handler)

    def stop(self) -> None:
        """Make `run` return when the open requests are answered. Any thread may call it."""
        if self._server is not None:
            self.service.is_draining = True
            self._server.should_exit = True

    def _watch(self) -> None:
        """Load new versions of the models until the server stops."""
        while not self._stopping.wait(self.settings.poll_seconds):
            for model in self.service.models.values():
                try:
                    model.refresh()
                except Exception:
                    logger.exception("%s: the check for new versions failed", model.name)


class _Uvicorn(uvicorn.Server):
    """uvicorn's server, which marks the service as draining at SIGTERM or SIGINT."""

    def __init__(self, config: uvicorn.Config, service: Service):
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Mark the service as draining, and stop the server."""
        self._service.is_draining = True
        super().handle_exit(sig, frame)


def serve(
    arguments: Sequence[str],
    labels: Sequence[str] = (),
    *,
    settings: Settings,
    tell: Callable[[str], None] = print,
    report: Callable[[str], None] = no_report,
) -> None:
    """Load models, and answer requests until SIGTERM or SIGINT.

    Args:
        arguments: PATH or NAME=PATH of each model.
        labels: NAME:LABEL=VERSION of each version label.
        settings: settings of the server.
        tell: function that prints a line for the user.
        report: function that is called with the name of each model before it is opened.

    Raises:
        UsageError: see `load_models`.
        ArtifactError: see `load_models`.
        ResourceError: see `listen`.
    """
    bound = listen(settings)  # before the models, so that a taken port is reported at once
    metrics = Metrics()
    try:
        options = replace(settings.options, report=metrics.count_batch)
        models = load_models(arguments, labels, options=options, report=report)
    except BaseException:
        bound.close()
        raise
    server = Server(models, settings, metrics)
    for line in start_lines(server, bound.getsockname()[1]):
        tell(line)
    server.run(bound)
    tell("Stopped.")


def start_lines(server: Server, port: int) -> list[str]:
    """Return the lines that the server prints at its start."""
    settings = server.settings
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    lines = []
    for name, served in server.service.models.items():
        versions = ", ".join(f"version {version.number}" for version in reversed(served.loaded))
        model = served.newest.model
        lines.append(
            f"{name}: {model.task}, {model.format} on {model.backend}, {model.dtype}, {versions}"
        )
    paths_of: dict[str, list[str]] = {}
    for path, model in first_models(server.service).items():
        if model is not None:
            paths_of.setdefault(model.name, []).append(path)
    lines += [f"{', '.join(paths)}: answered by {name}" for name, paths in paths_of.items()]
    if not settings.is_local and not settings.token:
        lines.append(
            "Everybody who reaches this address can use the server. Set a token with --token."
        )
    lines.append(f"Page: http://{host}:{port}/   HTTP API: http://{host}:{port}/docs")
    return lines
