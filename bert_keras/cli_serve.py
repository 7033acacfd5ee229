"""Command `bert-keras serve`: an HTTP server of models, with a page for the browser."""

from __future__ import annotations

import importlib.util
import logging
import sys
from typing import Annotated

import typer

from bert_keras import escaping
from bert_keras.errors import UsageError

_LIBRARIES = ("starlette", "uvicorn", "httptools", "orjson", "prometheus_client")
_LARGEST_PORT = 65_535


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="PATH or NAME=PATH of an export, a checkpoint or a run, or hf://organisation/name",
            show_default=False,
        ),
    ],
    label: Annotated[
        list[str] | None,
        typer.Option(help="NAME:LABEL=VERSION keeps a version loaded, as LABEL; repeatable"),
    ] = None,
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=_LARGEST_PORT, help="port; 0 for any that is free")
    ] = 8501,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="name in the header Host, as a proxy sends it; repeatable"),
    ] = None,
    token: Annotated[
        str,
        typer.Option(
            envvar="BERT_KERAS_SERVE_TOKEN",
            help="token that requests must send",
            show_default=False,
        ),
    ] = "",
    dtype: Annotated[str, typer.Option(help="dtype policy of checkpoints, such as bfloat16")] = "",
    device: Annotated[str, typer.Option(help="device of checkpoints, such as gpu:0")] = "",
    max_batch: Annotated[int, typer.Option(min=1, help="maximum texts in a batch")] = 32,
    max_wait: Annotated[
        float, typer.Option(min=0.0, help="maximum milliseconds that a text waits for others")
    ] = 2.0,
    max_queue: Annotated[
        int, typer.Option(min=1, help="maximum texts that wait for a model")
    ] = 2048,
    max_texts: Annotated[int, typer.Option(min=1, help="maximum texts in a request")] = 2048,
    max_body: Annotated[int, typer.Option(min=1, help="maximum kilobytes of a request")] = 8192,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="maximum seconds until the model answers")
    ] = 60.0,
    cors: Annotated[
        list[str] | None,
        typer.Option(help="origin whose web pages may send requests; repeatable"),
    ] = None,
    token_ids: Annotated[
        bool,
        typer.Option("--token-ids", help="/v1/embeddings takes ids of the model's own tokenizer"),
    ] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="serve SavedModels that other programs wrote")
    ] = False,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="read a pytorch_model.bin of a checkpoint")
    ] = False,
    variant: Annotated[
        str, typer.Option(help="variant of the weights of checkpoints, such as fp16")
    ] = "",
    averages: Annotated[
        bool, typer.Option("--averages", help="read the moving averages in TensorFlow checkpoints")
    ] = False,
) -> None:
    """Serve models over HTTP, with a page for the browser.

    Protocols: TensorFlow Serving (REST), OpenAI embeddings, Text Embeddings Inference, and Cohere
    re-ranking. From a folder of numbered versions, the server loads the newest. A later version
    replaces it without a lost request. After SIGTERM the server answers the open requests, and
    ends with exit code 0.
    """
    require_libraries()
    from bert_keras.serving.http_requests import Limits
    from bert_keras.serving.model_source import Options
    from bert_keras.serving.server import Settings
    from bert_keras.serving.server import serve as run

    settings = Settings(
        host=host,
        port=port,
        token=token,
        origins=tuple(cors or ()),
        allowed_hosts=tuple(allowed_host or ()),
        accepts_token_ids=token_ids,
        limits=Limits(max_body=1024 * max_body, max_texts=max_texts, timeout=timeout),
        options=Options(
            trust=trust,
            allow_pickle=allow_pickle,
            variant=variant or None,
            averages=averages,
            dtype=dtype or None,
            device=device or None,
            max_batch=max_batch,
            max_wait=max_wait / 1000,
            max_queue=max_queue,
        ),
    )
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("bert_keras.serving").setLevel(logging.INFO)
    with escaping.console(stderr=True).status("") as status:

        def report(name: str) -> None:
            """Show which model is being loaded."""
            status.update(f"loading {escaping.printable(name)}")

        def tell(line: str) -> None:
            """End the display of progress, and print a line."""
            status.stop()
            escaping.print_line(line)
            sys.stdout.flush()  # otherwise a pipe gets the address only when the server ends

        run(models, label or (), settings=settings, tell=tell, report=report)


def require_libraries() -> None:
    """Check that the libraries of the extra `serve` are installed.

    Raises:
        UsageError: if a library is missing.
    """
    missing = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f'Serving needs {", ".join(missing)}. Install with: pip install "bert-keras[serve]"'
        )
