"""docs/servers.md and examples/docker: names and files agree with what the exports write.

No test runs a container.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from bert_keras import BertEncoder, Predictor, SentenceEncoder, SequenceClassifier, Tokenizer
from bert_keras.features import LABEL
from tests.contracts import TINY
from tests.markdown import blocks

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "servers.md").read_text(encoding="utf-8")
DOCKER = ROOT / "examples" / "docker"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]


def _task() -> SequenceClassifier:
    """Return a classifier of two labels, as the page describes it."""
    return SequenceClassifier(BertEncoder(TINY), 2, labels=["bad", "good"])


def _names(kind: str) -> list[tuple[str, str, list[int]]]:
    """Return name, type and dimensions of the inputs or outputs in Triton's config."""
    (config,) = [block.text for block in blocks(PAGE) if block.language == "protobuf"]
    part = re.search(rf"^{kind} \[\n(.*?)^\]", config, re.M | re.DOTALL)
    assert part
    rows = re.findall(r'name: "(\w+)" data_type: (\w+) dims: \[ (.*?) \]', part[1])
    return [(name, dtype, [int(size) for size in sizes.split(",")]) for name, dtype, sizes in rows]


def test_the_config_of_triton_names_the_inputs_of_the_model() -> None:
    task = _task()
    names = {tensor.name for tensor in task.inputs}
    assert {name for name, _, _ in _names("input")} == names
    assert {dtype for _, dtype, _ in _names("input")} == {"TYPE_INT32"}
    assert _names("output") == [(LABEL, "TYPE_FP32", [task.output[LABEL].shape[-1]])]


@pytest.mark.slow
def test_the_config_of_triton_fits_an_export(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from bert_keras.export import runtime_model

    runtime_model(_task(), Tokenizer(WORDS), tmp_path / "reviews-onnx" / "1", format="onnx")
    session = onnxruntime.InferenceSession(tmp_path / "reviews-onnx" / "1" / "model.onnx")
    assert {item.name: (item.type, item.shape[1:]) for item in session.get_inputs()} == {
        name: ("tensor(int32)", ["length"]) for name, _, _ in _names("input")
    }
    assert {item.name: (item.type, item.shape[1:]) for item in session.get_outputs()} == {
        name: ("tensor(float)", sizes) for name, _, sizes in _names("output")
    }


def test_the_requests_have_the_inputs_of_the_model() -> None:
    triton, openvino = (json.loads(b.text) for b in blocks(PAGE) if b.language == "json")
    names = {tensor.name for tensor in _task().inputs}
    assert {item["name"] for item in triton["inputs"]} == names
    assert all(item["shape"] == [1, len(item["data"])] for item in triton["inputs"])
    assert set(openvino["inputs"]) == names


def test_the_folder_of_tei_is_what_is_saved(tmp_path: Path) -> None:
    Predictor(SentenceEncoder(BertEncoder(TINY)), Tokenizer(WORDS)).save_to_preset(tmp_path)
    (shown,) = [block.text for block in blocks(PAGE) if block.text.startswith("vectors/")]
    files = shown.removeprefix("vectors/").split()
    assert len(files) == 7
    assert all((tmp_path / name).is_file() for name in files)


def test_the_container_copies_files_that_are_there() -> None:
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    copied = [word for line in re.findall(r"^COPY (.*)$", text, re.M) for word in line.split()[:-1]]
    assert len(copied) == 4
    assert all((ROOT / name).exists() for name in copied)
    assert 'ENTRYPOINT ["bert-keras", "serve"]' in text


def test_the_compose_file_needs_a_token_and_binds_to_this_machine() -> None:
    (service,) = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].values()
    words = service["command"]
    assert words[words.index("--token") + 1].startswith("${BERT_KERAS_TOKEN:?")
    assert service["ports"] == ["127.0.0.1:8501:8501"]
    context = (DOCKER / service["build"]["context"]).resolve()
    assert (context / service["build"]["dockerfile"]).is_file()


@pytest.mark.parametrize("text", [PAGE, *(path.read_text() for path in DOCKER.iterdir())])
def test_it_says_that_it_was_not_run(text: str) -> None:
    assert re.search(r"were run here|Not run by the tests", text)
