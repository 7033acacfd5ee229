"""docs/exporting.md: its commands export models, its clients get answers, its options exist.

A stand-in replaces TensorFlow Serving. It answers gRPC requests with the signatures of the
SavedModel.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import pytest

from bert_keras import cli
from bert_keras.models import BertEncoder, SequenceClassifier
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer
from tests.contracts import TINY, as_trained
from tests.markdown import Block, blocks, run_python

if keras.backend.backend() != "tensorflow":
    pytest.skip("the page is run on the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")
grpc = pytest.importorskip("grpc")
pytest.importorskip("tensorflow_serving.apis")
from tensorflow_serving.apis import (  # noqa: E402
    predict_pb2,
    prediction_service_pb2_grpc,
)

PAGE = Path(__file__).parents[1] / "docs" / "exporting.md"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "dull", "film"]
TEXTS = ["a fine film", "a dull film"]


@pytest.fixture(scope="module")
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def found(text: str) -> list[Block]:
    return blocks(text)


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    config = TINY.replace(vocab_size=len(VOCABULARY), max_positions=64)
    task = as_trained(SequenceClassifier(BertEncoder(config), 2, labels=["good", "bad"]))
    return Predictor(task, Tokenizer(VOCABULARY))


@pytest.fixture(scope="module")
def models(found, predictor, tmp_path_factory) -> Iterator[Path]:
    """Return the folder of the models that the page's commands exported."""
    folder = tmp_path_factory.mktemp("page")
    predictor.save_to_preset(folder / "reviews")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in found:
            for line in block.text.splitlines() if block.language == "bash" else ():
                words = shlex.split(line)
                patch.setattr(sys, "argv", words)
                with pytest.raises(SystemExit) as end:
                    cli.main()
                assert not end.value.code, line
        yield folder


def test_the_commands_wrote_what_the_page_says(models: Path) -> None:
    written = {
        str(path.parent.relative_to(models / "saved_models"))
        for path in models.glob("saved_models/*/*/*")
        if path.is_file()
    }
    formats = ("onnx", "onnx-int8", "litert", "litert-int8")
    assert written == {"reviews/1", "reviews/2", *(f"reviews-{name}/1" for name in formats)}


class Served:
    """A SavedModel in the stand-in for TensorFlow Serving."""

    def __init__(self, folder: Path):
        self.model = tf.saved_model.load(str(folder))

    def predict(self, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        return self.model.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})


class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    """The gRPC service of the stand-in."""

    def __init__(self, served: Served):
        self.served = served

    def Predict(self, request: Any, _: Any) -> Any:  # noqa: N802
        assert request.model_spec.name == "reviews"
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        outputs = self.served.predict(request.model_spec.signature_name, inputs)
        response = predict_pb2.PredictResponse()
        for key, value in outputs.items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value.numpy(), value.dtype))
        return response


@pytest.fixture(scope="module")
def ports(models: Path) -> Iterator[dict[str, int]]:
    """Start the stand-in; return its port for each port that the page names."""
    served = Served(models / "saved_models" / "reviews" / "1")

    server = grpc.server(ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(served), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield {"8500": port}
    server.stop(None)


def test_the_programs_run(found, ports, predictor, capsys) -> None:
    programs = []
    for block in found:
        program = block.text
        for theirs, ours in ports.items():
            program = program.replace(f"localhost:{theirs}", f"localhost:{ours}")
        programs.append(block._replace(text=program))
    names = run_python(programs, str(PAGE))
    expected = predictor(TEXTS)
    assert names["labels"] == [label.label for label in expected]
    scores = [label.score for label in expected]
    assert names["scores"].tolist() == pytest.approx(scores, abs=1e-5)
    assert names["logits"].shape == (1, 2)
    names["channel"].close()
    assert str([label.label for label in expected]) in capsys.readouterr().out


def test_the_table_names_every_option(text: str) -> None:
    from bert_keras.cli_export import export

    rows = re.findall(r"^\| (`--[^|]+) \|", text, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`--(?:no-)?([\w-]+)", row)}
    known = {"format" if name == "formats" else name for name in export.__annotations__}
    known = {"quantization" if name == "quantizations" else name for name in known}
    known = {name.replace("_", "-") for name in known}
    assert named == known - {"source", "return", "allow-pickle", "trust"}
