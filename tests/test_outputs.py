"""Exports and programs use no network, and write no private information into files."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import keras
import pytest

from tests.training.conftest import sentences

ROOT = Path(__file__).parents[1]
BACKEND = keras.backend.backend()
# Names that no file may contain: folders, user, host, and a value of the environment.
HOME, SCRATCH, USER, HOST = "home-canary", "tmp-canary", "user-canary", "host-canary"
SECRET = "s-3cr3t"
# Files that other libraries write into the home folder: settings of Keras, font lists of
# Matplotlib.
KNOWN_IN_HOME = (".keras", ".cache/matplotlib", ".config/matplotlib")
EVENT_FILE = re.compile(r"events\.out\.tfevents\.\d+\.\d+\.\d+\.v2")  # without the host's name
# Every Python process runs this code at its start, including child processes.
WATCH = """
import os, socket, sys
socket.gethostname = lambda: "{host}"
log = os.open("{log}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def watch(event, arguments):
    if event == "socket.connect" and arguments[0].family == socket.AF_UNIX:
        return
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
        os.write(log, repr((event, arguments)).encode() + bytes([10]))

sys.addaudithook(watch)
"""
EXPORTS = """
import sys
from pathlib import Path

import keras
from bert_keras import BertConfig, BertEncoder, Tokenizer, cli
from bert_keras.checkpoints.folders import _FORMATS
from bert_keras.export.runtimes.formats import FORMATS
from bert_keras.models import MaskedLM

def run(*arguments):
    sys.argv = ["bert-keras", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as end:
        assert not end.code, arguments

tokenizer = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"])
config = dict(hidden_size=8, num_layers=1, num_heads=2, intermediate_size=16, max_positions=16)
task = MaskedLM(BertEncoder(BertConfig(vocab_size=tokenizer.vocab_size, **config)))
task.save_to_preset("preset")
tokenizer.save_to_preset("preset")
task.save("model.keras")
backend = keras.backend.backend()
own = [name for name, format in FORMATS.items() if format.backend(backend, None) == backend]
# On JAX a process of another backend writes them: one of them is enough.
runtimes = own or ["onnx"]
texts = ["saved_model", "tf_hub"] if backend == "tensorflow" else []
quantizations = ["none", "int8"] if own else ["none"]
options = [part for name in (*runtimes, *texts) for part in ("--format", name)]
options += [part for name in quantizations for part in ("--quantization", name)]
run("export", "preset", *options, "--folder", "exports")
written = sorted(Path("exports").glob("*/1"))
assert len(written) == len(runtimes) * len(quantizations) + len(texts)
for folder in written:
    if "tf_hub" not in folder.parent.name:  # a pair of models for TensorFlow Hub
        run("serve-check", folder)

# The one model that every format has a place for.
config |= dict(vocab_size=tokenizer.vocab_size, activation="gelu_tanh")
BertEncoder(BertConfig(**config)).save_to_preset("encoder")
tokenizer.save_to_preset("encoder")
for name in _FORMATS:
    run("convert", "encoder", Path("converted", name), "--format", name)
assert len(list(Path("converted").iterdir())) == len(_FORMATS) >= 3
"""
PROGRAMS = """
import itertools, json, shutil, sys
from pathlib import Path
from bert_keras import cli
from bert_keras.resume import MetricsLog
from bert_keras.training import evaluate, finetune, predict, prepare, pretrain

append, numbers = MetricsLog.append, itertools.count()

# Copies the files of a run while it goes on; the test looks at its weights in the end.
def append_and_copy(log, record):
    append(log, record)
    run = next(folder for folder in log._path.parents if (folder / "LOCK").is_file())
    weights = shutil.ignore_patterns("*.safetensors")
    shutil.copytree(run, Path("copies", str(next(numbers))), ignore=weights)

MetricsLog.append = append_and_copy

def done(program, *arguments):
    assert not program([*arguments]), program

options = "layout=sentences", "validation_split=0.2", "vocab_size=300"
text = "corpus=~/text.txt", *options
# A shell replaces the "~" of an argument.
done(prepare.main, f"corpus={Path.home()}/text.txt", *options, "out=~/corpora/mine", "workers=1")
small = "sequence_length=16", "batch_size=4", "export=false"
done(pretrain.main, "demo", "--quicktest", *text, *small, "out=~/runs/pretrain", "tensorboard=true")
done(pretrain.main, "demo", "--quicktest", *text, *small, "steps=2", "eval_examples=4")
Path("task.py").write_text(
    "from bert_keras.training.finetune_recipe import FinetuneRecipe\\n"
    "recipe = FinetuneRecipe(task='text_classification')"
)
done(finetune.main, "task.py", "--quicktest", "out=~/runs/finetune", "epochs=1")
done(finetune.main, "task.py", "--quicktest", "epochs=1")
data = "data=~/runs/finetune/.quicktest/train.jsonl"
done(evaluate.main, "~/runs/finetune", data)
done(predict.main, "~/runs/finetune", data[5:], "out=~/predictions.tsv")
sys.argv = ["bert-keras", "convert", "../runs/finetune", "converted"]
try:
    cli.main()
except SystemExit as end:
    assert not end.code
"""


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file, including the members of archives."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield from _parts(str(path.relative_to(folder)), path.read_bytes())


def _parts(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    yield name, data
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.namelist():
                yield from _parts(f"{name}: {member}", archive.read(member))


def _told(folder: Path) -> list[str]:
    canaries = [canary.encode() for canary in (HOME, SCRATCH, USER, HOST, SECRET)]
    return [
        f"{name}: {data[max(0, data.find(canary) - 40) :][:100]!r}"
        for name, data in _files(folder)
        for canary in canaries
        if canary in data or canary in name.encode()
    ]


def test_the_search_finds_what_is_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside", f"a path: {HOME}/x" * 3)
    (tmp_path / "b").write_bytes(b"\0\1" + SECRET.encode() + b"\2")
    (tmp_path / "c").write_bytes(b"nothing")
    assert [line.partition(": b'")[0] for line in _told(tmp_path)] == ["a.zip: inside", "b"]


def _check_copies(folder: Path) -> None:
    """Check the lock and event files in copies of running runs for the host's name.

    The search for the replaced name cannot find it there, because C++ code asks the system for it.
    """
    copies = list(folder.iterdir())
    assert len(copies) >= 6
    for copy in copies:
        assert set(json.loads((copy / "LOCK").read_bytes())) == {"pid", "machine", "start"}
    names = {path.name for path in folder.rglob("*tfevents*")}
    assert names
    assert [name for name in names if not EVENT_FILE.fullmatch(name)] == []


@pytest.mark.parametrize("program", [EXPORTS, PROGRAMS], ids=["exports", "programs"])
def test_a_watched_process(program: str, tmp_path: Path) -> None:
    needed = ("openvino", "nncf", "ai_edge_litert", "tf2onnx") if BACKEND == "tensorflow" else ()
    if program is EXPORTS:
        for library in (*needed, "onnx", "onnxruntime"):
            if importlib.util.find_spec(library) is None:
                pytest.skip(f"needs {library}")
    home, scratch, log = tmp_path / HOME, tmp_path / SCRATCH, tmp_path / "log"
    for folder in (home / "work", scratch, tmp_path / "site"):
        folder.mkdir(parents=True)
    (home / "text.txt").write_text(sentences(), encoding="utf-8")
    watch = WATCH.format(host=HOST, log=log)
    (tmp_path / "site" / "sitecustomize.py").write_text(watch, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    environment = {
        **kept,
        "HOME": str(home),
        "TMPDIR": str(scratch),
        "USER": USER,
        "LOGNAME": USER,
        "CANARY": SECRET,
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(ROOT)]),
        "KERAS_BACKEND": BACKEND,
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # TensorFlow's AutoGraph imports generated files, whose bytecode would stay.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=environment, cwd=home / "work", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert log.read_text(encoding="utf-8") == ""
    assert _told(home) == []
    ours = ("work", "runs", "corpora", "predictions.tsv", "text.txt")
    names = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
    strangers = [
        str(name)
        for name in names
        if name.parts[0] not in ours and not any(map(name.is_relative_to, KNOWN_IN_HOME))
    ]
    assert strangers == []
    # Only the run folders without `out=` and the cache of PyTorch's compiler may remain.
    left = [path for path in scratch.iterdir() if not path.name.startswith("torchinductor")]
    runs = [path for path in left if path.name.startswith("bert_keras_quicktest_")]
    assert left == runs
    assert len(runs) == (2 if program is PROGRAMS else 0)
    assert [line for run in runs for line in _told(run)] == []
    if program is PROGRAMS:
        _check_copies(home / "work" / "copies")
        manifest = json.loads((home / "corpora/mine/train/manifest.json").read_bytes())
        assert [file["name"] for file in manifest["origin"]["files"]] == ["~/text.txt"]
