"""Inputs and outputs of a SavedModel's signatures, for each kind of model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from bert_keras.config import BertConfig
from bert_keras.export.graph import signatures
from bert_keras.models import (
    BertEncoder,
    MaskedLM,
    MultipleChoice,
    Pretrainer,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    TextRanker,
    TokenClassifier,
)
from bert_keras.predictor import Predictor
from bert_keras.tokenizers import Tokenizer

if keras.backend.backend() != "tensorflow":
    pytest.skip("SavedModels are written on the TensorFlow backend", allow_module_level=True)
tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY) + 2,
    hidden_size=8,
    num_layers=1,
    num_heads=2,
    intermediate_size=8,
    max_positions=12,
)


def saved(
    task: Any,
    folder: Path,
    max_length: int = 12,
    *,
    portable: bool = False,
    pairs: bool = False,
    **options: Any,
) -> Any:
    told: dict[str, Any] = {"max_length": max_length, "options": options, "pairs": pairs}
    predictor = Predictor(task, Tokenizer(VOCABULARY), **told)
    signatures.write_saved_model(predictor, folder, folder, portable=portable)
    return tf.saved_model.load(str(folder))


class Exported(NamedTuple):
    """Task with the folder of its SavedModel and the loaded SavedModel."""

    task: Any
    folder: Path
    model: Any


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Exported]:
    """Return a function that exports a task over an encoder, once for each maker of a task."""

    @functools.cache
    def of(make: Callable[[BertEncoder], Any]) -> Exported:
        task, folder = make(BertEncoder(CONFIG)), tmp_path_factory.mktemp("exported")
        more: dict[str, Any] = {"max_question": 3} if isinstance(task, QuestionAnswerer) else {}
        return Exported(task, folder, saved(task, folder, **more))

    return of


def _classifier(encoder: BertEncoder) -> SequenceClassifier:
    return SequenceClassifier(encoder, 2)


LABELS, VECTOR = {"label", "score", "labels", "scores"}, {"sentence_vector"}
FILLS = {"tokens", "token_ids", "scores", "mask_count"}


def _pairs(loss: str, **options: Any) -> SentencePairs:
    return SentencePairs(BertEncoder(CONFIG), loss=loss, **options)


@pytest.mark.parametrize(
    ("make", "inputs", "outputs", "others"),
    [
        (_classifier, "text", LABELS, {"pairs": "text pair"}),
        (lambda e: SequenceClassifier(e, 1), "text", {"scores"}, {"pairs": "text pair"}),
        (
            lambda e: SequenceClassifier(e, 2, problem="multi_label"),
            "text",
            {"labels", "scores", "count"},
            {"pairs": "text pair"},
        ),
        (
            lambda e: TokenClassifier(e, 3, labels=["O", "B-X", "I-X"]),
            "text",
            {"label", "text", "start", "end", "score", "count"},
            {},
        ),
        (
            QuestionAnswerer,
            "question context",
            {"answer", "start", "end", "score", "null_score"},
            {},
        ),
        (MultipleChoice, "prompt options", {"index", "choice", "score", "scores"}, {}),
        (TextRanker, "text pair", {"scores"}, {}),
        (SentenceEncoder, "text", VECTOR, {"similarity": "text pair"}),
        (lambda _: _pairs("similarity"), "text", VECTOR, {"similarity": "text pair"}),
        (lambda _: _pairs("classification", num_classes=2), "text pair", LABELS, {}),
        (MaskedLM, "text", FILLS, {}),
        (Pretrainer, "text", FILLS, {"next_sentence": "text pair"}),
    ],
)
def test_signatures(make, inputs: str, outputs: set[str], others: dict, exported) -> None:
    task, _, model = exported(make)
    found = {
        name: set(signature.structured_input_signature[1])
        for name, signature in model.signatures.items()
    }
    expected = {name: set(taken.split()) for name, taken in others.items()}
    raw = {tensor.name for tensor in task.inputs}
    assert found == {
        **expected,
        "serving_default": set(inputs.split()),
        "ids": raw,
        "training": raw,
    }
    run = model.signatures["serving_default"]
    assert set(run.structured_outputs) == outputs
    shapes = {"options": [2, 2]}
    given = {name: tf.fill(shapes.get(name, [2]), "a [MASK] b") for name in inputs.split()}
    assert all(value.shape[0] == 2 for value in run(**given).values())
    empty = {name: value[:0] for name, value in given.items()}
    assert all(value.shape[0] == 0 for value in run(**empty).values())
    names = {variable.path for variable in task.variables}
    assert len(model.variables) == len(task.variables) == len(names)
    for signature in model.signatures.values():
        _check_refusals(signature)


def _check_refusals(signature: Any) -> None:
    """Check that a signature names each input of a wrong rank, a wrong id or a wrong length."""
    specs = signature.structured_input_signature[1]
    good = {name: _filled(spec, len(spec.shape)) for name, spec in specs.items()}
    signature(**good)
    for name, spec in specs.items():
        for rank in {0, 1, 2, 3, 4} - {len(spec.shape)}:
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"`{name}` must have the sha"):
                signature(**{**good, name: _filled(spec, rank)})
    if "token_ids" not in specs:
        return
    for wrong in (CONFIG.vocab_size, -1):
        with pytest.raises(tf.errors.InvalidArgumentError, match="`token_ids` must be numbers"):
            signature(**{**good, "token_ids": tf.fill(good["token_ids"].shape, wrong)})
    long = {
        name: tf.repeat(value, 13, axis=-1)
        for name, value in good.items()
        if specs[name].shape[-1] is None
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match="`token_ids` must have at most 12"):
        signature(**{**good, **long})


def _filled(spec: Any, rank: int) -> Any:
    """Return an input of one row with one token or two texts, with `rank` axes."""
    open_size = 2 if spec.dtype == tf.string else 1
    own = [1, *(size or open_size for size in spec.shape[1:])]
    shape = own if rank == len(own) else [1, 2, 2, 2][:rank]
    return tf.fill(shape, "a [MASK] b") if spec.dtype == tf.string else tf.zeros(shape, spec.dtype)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "other"),
    [(_classifier, "texts"), (SentenceEncoder, "vectors")],
)
def test_two_texts_by_default(make, other: str, tmp_path: Path) -> None:
    model = saved(make(BertEncoder(CONFIG)), tmp_path, pairs=True)
    taken = model.signatures["serving_default"].structured_input_signature[1]
    assert set(taken) == {"text", "pair"}
    assert set(model.signatures[other].structured_input_signature[1]) == {"text"}


@pytest.mark.slow
def test_options(tmp_path: Path) -> None:
    task = SequenceClassifier(BertEncoder(CONFIG), 4)
    run = saved(task, tmp_path, top_k=2).signatures["serving_default"]
    assert run(text=tf.constant(["a"]))["labels"].shape == (1, 2)


def test_portable_has_no_operation_of_tensorflow_text(exported, tmp_path: Path) -> None:
    task, *first = exported(_classifier)
    texts = tf.constant(["a b", "c", "", "ab [MASK]"])
    answers, operations = [], []
    for folder, model in (first, (tmp_path, saved(task, tmp_path, portable=True))):
        answers.append(model.signatures["serving_default"](text=texts)["scores"])
        operations.append((folder / "saved_model.pb").read_bytes())
    np.testing.assert_array_equal(*answers)
    assert b"FastWordpiece" in operations[0]
    assert b"FastWordpiece" not in operations[1]


@pytest.mark.slow
def test_encoder_without_segments_and_pooler_but_with_everything_inside(tmp_path):
    config = CONFIG.replace(num_layers=2, num_segments=0, pooler=False)
    encoder = BertEncoder(config, hidden_states=True, attentions=True, dtype="mixed_bfloat16")
    model = saved(encoder, tmp_path)
    specs = model.signatures["ids"].structured_input_signature[1]
    assert sorted(specs) == ["padding_mask", "token_ids"]
    outputs = model.signatures["serving_default"](text=tf.constant(["a b", "c"]))
    integers = {"token_ids", "padding_mask"}
    assert {name: tuple(value.shape) for name, value in outputs.items()} == {
        "sentence_vector": (2, 8),
        "sequence_output": (2, 4, 8),
        **{f"hidden_states_{index}": (2, 4, 8) for index in range(3)},
        **{f"attentions_{index}": (2, 2, 4, 4) for index in range(2)},
        **dict.fromkeys(integers, (2, 4)),
    }
    for name, value in outputs.items():
        assert value.dtype == (tf.int32 if name in integers else tf.float32)


def test_text_is_cut_at_max_length(tmp_path):
    model = saved(MaskedLM(BertEncoder(CONFIG)), tmp_path, max_length=4)
    outputs = model.signatures["serving_default"](
        text=tf.constant(["[MASK] a [MASK]", "[MASK]" * 9])
    )
    assert outputs["mask_count"].numpy().tolist() == [1, 2]


def test_rows_without_a_token_are_no_answer(tmp_path):
    """Rows of the output layer that have no token in the vocabulary are never predicted."""
    # The model has two more rows than the vocabulary, and these have the highest scores.
    task = MaskedLM(BertEncoder(CONFIG))
    assert task.mlm.bias is not None
    task.mlm.bias.assign([0.0] * len(VOCABULARY) + [50.0, 50.0])
    model = saved(task, tmp_path, top_k=len(VOCABULARY))
    outputs = model.signatures["serving_default"](text=tf.constant(["[MASK]"]))
    assert {token.decode() for token in outputs["tokens"].numpy().ravel()} == set(VOCABULARY)
    assert outputs["scores"].numpy().sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_one_text_or_many_give_the_same(exported):
    run = exported(MaskedLM).model.signatures["serving_default"]
    texts = ["[MASK]", "a [MASK] b [MASK] c a b c", "c [MASK]"]
    together = run(text=tf.constant(texts))
    for row, text in enumerate(texts):
        alone = run(text=tf.constant([text]))
        count = int(alone["mask_count"][0])
        assert count == int(together["mask_count"][row])
        np.testing.assert_allclose(
            alone["scores"][0], together["scores"][row, :count], atol=1e-6, rtol=1e-5
        )
