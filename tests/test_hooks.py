"""Import hooks that run code before or after a module is executed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import pytest

from bert_keras import errors, hooks
from tests.processes import run_client


class Finder:
    """A finder that records the execution of the module `watched`."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextlib.contextmanager
    def around(self, module: ModuleType) -> Iterator[None]:
        self.told.append(f"{module.__name__} begins, {hasattr(module, 'VALUE')}")
        yield
        self.told.append(f"{module.__name__} ends, {hasattr(module, 'VALUE')}")

    def find_spec(self, name: str, path=None, target=None):
        if name != "watched":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None
        spec.loader = hooks.WatchedLoader(spec.loader, self.around)  # pyright: ignore[reportAttributeAccessIssue]
        return spec


@pytest.fixture
def finder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Finder]:
    (tmp_path / "watched.py").write_text("VALUE = 1\n")
    finder = Finder()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    yield finder
    sys.modules.pop("watched", None)


def test_the_module_is_executed_inside_the_context(finder: Finder) -> None:
    module = importlib.import_module("watched")
    assert module.VALUE == 1
    assert finder.told == ["watched begins, False", "watched ends, True"]


def test_the_module_keeps_its_own_loader(finder: Finder) -> None:
    module = importlib.import_module("watched")
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader
    assert module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__
    assert finder.told


def test_a_spec_that_is_only_searched_for_has_the_loaders_methods(finder: Finder) -> None:
    spec = hooks.find_spec("watched", None, None)
    assert spec is not None
    assert spec.loader.get_source("watched") == "VALUE = 1\n"  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    assert finder.told == []
    assert hooks.find_spec("no_such_module", None, None) is None


# === `export` of a model works after `import bert_keras` alone


IN_NEW_PROCESS = """
import json, sys
import bert_keras as bk
config = bk.BertConfig(
    vocab_size=20, hidden_size=8, num_layers=1, num_heads=2, intermediate_size=8, max_positions=16
)
task = bk.SequenceClassifier(bk.BertEncoder(config), labels=["a", "b"])
found = [name for name in sys.modules if name.startswith("bert_keras.export.")]
try:
    task.export("model.onnx", format="onnx", opset_version=18)
except ValueError as error:
    message = str(error)
print(json.dumps([found, message]))
"""


def test_the_writers_are_imported_at_the_first_export(tmp_path: Path) -> None:
    environment = {"KERAS_BACKEND": keras.backend.backend()}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    printed = run_client(IN_NEW_PROCESS, folder=tmp_path, **environment)
    found, message = json.loads(printed.splitlines()[-1])
    assert found == []
    assert "runtime_model(model, tokenizer, path" in message or "takes no opset_version" in message
    assert list(tmp_path.iterdir()) == []


def test_one_writer_is_called_and_the_last_one_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "_writers", [])
    assert not hooks.is_exported("model", "path", "onnx", {})
    calls: list[tuple] = []
    for answer in (False, True):

        def write(*args: object, verbose: bool | None, answer: bool = answer) -> bool:
            calls.append((*args, verbose))
            return answer

        hooks.set_export_writer(write)
    assert hooks.is_exported("model", "path", "onnx", {}, verbose=False)
    assert calls == [("model", "path", "onnx", {}, False)]


def test_the_page_sets_the_writer_of_export(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*args: object, verbose: bool | None) -> bool:
        return (*args, verbose) == ("model", "path", "onnx", {}, None)

    module = importlib.import_module("bert_keras.export.runtime_model")
    monkeypatch.setattr(module, "is_written", write)
    assert hooks.is_exported("model", "path", "onnx", {})


# === Stderr while TensorFlow is imported: only known lines are dropped
# The processes import a module `tensorflow` that the test writes.


ROOT = Path(__file__).parents[1]
# Messages of TensorFlow 2.16, 2.18 and 2.21.
KNOWN = """\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795795065.161912   16560 port.cc:153] oneDNN custom operations are on. You may see \
slightly different numerical results due to floating-point round-off errors.
I0000 00:00:1795795065.163023   16560 cudart_stub.cc:31] Could not find cuda drivers on your \
machine, GPU will not be used.
2024-11-05 10:11:12.123456: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.
2024-11-05 10:11:12.123456: I external/local_xla/xla/tsl/cuda/cudart_stub.cc:32] Could not find \
cuda drivers on your machine, GPU will not be used.
E0000 00:00:1730000000.1    42 cuda_dnn.cc:8579] Unable to register cuDNN factory: Attempting to \
register factory for plugin cuDNN when one has already been registered
2024-11-05 10:11:12.1: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:477] Unable to \
register cuFFT factory: Attempting to register factory for plugin cuFFT
W0000 00:00:1730000000.1    42 computation_placer.cc:177] computation placer already registered.
2024-11-05 10:11:12.1: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary \
is optimized to use available CPU instructions in performance-critical operations.
To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the \
appropriate compiler flags.
2024-11-05 10:11:12.1: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: \
Could not find TensorRT
"""
REAL = """\
E0000 00:00:1730000000.1    42 cuda_driver.cc:152] failed call to cuInit: CUDA_ERROR_UNKNOWN
W0000 00:00:1730000000.1    42 gpu_device.cc:2344] Cannot dlopen some GPU libraries.
ImportWarning: oneDNN custom operations are on. says a module
port.cc:153] oneDNN custom operations are on.

F0000 00:00:1730000000.1    42 port.cc:153] Check failed: oneDNN
"""


def run(
    tmp_path: Path,
    module: str,
    program: str = "import tensorflow",
    *,
    before: Sequence[str] = (),
    stderr: Any = subprocess.PIPE,
    verbose: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a program with `quiet()` and a stand-in for TensorFlow.

    `module` is the source of the stand-in; `before` has the words that start the command.
    """
    lines = f"KNOWN = {KNOWN!r}\nimport os, sys\n" + textwrap.dedent(module)
    (tmp_path / "tensorflow.py").write_text(lines)
    begin = "import os, sys; from bert_keras.errors import quiet; quiet()\n"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    environment["BERT_KERAS_VERBOSE"] = verbose
    return subprocess.run(
        [*before, sys.executable, "-c", begin + textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=environment,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("line", KNOWN.encode().splitlines())
def test_known_lines(line: bytes) -> None:
    assert hooks.is_known(line)


@pytest.mark.parametrize("line", REAL.encode().splitlines())
def test_other_lines(line: bytes) -> None:
    assert not hooks.is_known(line)


def test_only_known_lines_are_dropped_in_order_and_only_during_the_import(tmp_path: Path) -> None:
    module = f"""
        os.write(2, (KNOWN + "from C\\n" + KNOWN).encode())
        print("from Python", file=sys.stderr)
        os.write(2, {REAL!r}.encode())
        print("no end of line", end="", file=sys.stderr)
    """
    program = """
        print("before", file=sys.stderr)
        import tensorflow
        print(" after", tensorflow.KNOWN[:8], file=sys.stderr)
        print(tensorflow.KNOWN, file=sys.stderr)
    """
    done = run(tmp_path, module, program)
    kept = f"before\nfrom C\nfrom Python\n{REAL}no end of line after WARNING:\n{KNOWN}\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "", kept)


def test_everything_is_shown_for_the_asking(tmp_path: Path) -> None:
    done = run(tmp_path, "os.write(2, KNOWN.encode())", verbose="1")
    assert done.stderr == KNOWN


def test_an_error_of_the_import_keeps_its_traceback(tmp_path: Path) -> None:
    done = run(tmp_path, "os.write(2, KNOWN.encode())\nimport no_such_module")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os._exit(3)", 3),
        ("os.abort()", -signal.SIGABRT),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("faulthandler.enable(); ctypes.string_at(0)", -signal.SIGSEGV),
        ("sys.exit('leaves')", 1),
    ],
)
def test_the_last_words_of_a_process_arrive(tmp_path: Path, end: str, code: int) -> None:
    module = f"""
        import ctypes, faulthandler, signal
        os.write(2, (KNOWN + "F0000 Check failed\\nhalf a line ").encode())
        {end}
    """
    done = run(tmp_path, module)
    assert done.returncode == code
    assert done.stderr.startswith("F0000 Check failed\nhalf a line ")
    assert ("Segmentation fault" in done.stderr) == ("faulthandler" in end)
    assert ("leaves" in done.stderr) == ("leaves" in end)


def test_messages_arrive_during_the_import(tmp_path: Path) -> None:
    """Messages are shown while an import is still running."""
    log = tmp_path / "log"
    module = f"""
        import time
        os.write(2, b"waits for a lock\\n")
        end = time.monotonic() + 30
        while os.path.getsize({str(log)!r}) == 0 and time.monotonic() < end:
            time.sleep(0.01)
        print(open({str(log)!r}).read(), end="")
    """
    with log.open("w") as stderr:
        assert run(tmp_path, module, stderr=stderr).stdout == "waits for a lock\n"


def test_processes_of_the_import_keep_a_stderr(tmp_path: Path) -> None:
    """A process that the import started can still write to stderr after the import."""
    module = """
        import subprocess
        write = "import os, sys; sys.stdin.read(); os.write(2, b'a worker\\\\n')"
        worker = subprocess.Popen([sys.executable, "-c", write], stdin=subprocess.PIPE)
    """
    program = """
        from bert_keras import hooks
        hooks._SECONDS = 0.1
        import tensorflow
        print("after", file=sys.stderr, flush=True)
        tensorflow.worker.communicate()
    """
    assert run(tmp_path, module, program).stderr == "after\na worker\n"


def test_without_a_stderr(tmp_path: Path) -> None:
    module = "print(sys.stderr)\nos.write(1, b'imported\\n')"
    before = ("sh", "-c", 'exec "$@" 2>&-', "sh")
    done = run(tmp_path, module, before=before)
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["None", "imported"])


def test_a_stderr_that_nobody_reads_any_more(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    module = "os.write(2, b'x' * 200_000)\nprint('imported')"
    assert run(tmp_path, module, stderr=write).stdout == "imported\n"
    os.close(write)


@pytest.mark.parametrize("executable", ["/no/such/python", "/bin/true", ""])
def test_where_no_filter_can_be_started_all_is_shown(tmp_path: Path, executable: str) -> None:
    program = f"sys.executable = {executable!r}\nimport tensorflow"
    done = run(tmp_path, "os.write(2, KNOWN.encode())", program)
    assert (done.returncode, done.stderr) == (0, KNOWN)


def test_it_is_installed_once_and_not_after_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [finder for finder in sys.meta_path if not isinstance(finder, hooks._Finder)]
    monkeypatch.setattr(sys, "meta_path", others)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    before = len(sys.meta_path)
    errors.quiet()
    assert len(sys.meta_path) == before
    monkeypatch.delitem(sys.modules, "tensorflow")
    errors.quiet()
    errors.quiet()
    assert len(sys.meta_path) == before + 1
