"""Code blocks of a model card, which open a checkpoint folder with each library that can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bert_keras import features
from bert_keras.checkpoints import hugging_face, sentence_transformers_writer
from bert_keras.checkpoints.checkpoint import encoder_of, is_task
from bert_keras.checkpoints.hugging_face_family import task_format
from bert_keras.checkpoints.hugging_face_names import NATIVE
from bert_keras.inference.base import PredictorConfig
from bert_keras.tokenizers import Tokenizer

if TYPE_CHECKING:
    from bert_keras.models import BertEncoder, Task


def opens(library: str, model: BertEncoder | Task) -> bool:
    """Return whether a library can open the folder of a model.

    Args:
        library: "transformers" or "sentence-transformers".
        model: encoder or task in the folder.
    """
    name, options = type(model).__name__, model.options
    if hugging_face.family_for(encoder_of(model).config, name, options) is NATIVE:
        return False
    is_theirs = is_task(model) and sentence_transformers_writer.is_theirs(name, options)
    return library == "transformers" or is_theirs


def usage(
    model: BertEncoder | Task, tokenizer: Tokenizer | None, config: PredictorConfig
) -> Iterator[str]:
    """Yield code blocks that open the folder, with bert_keras and with another library that can."""
    yield "Run this code in the folder, or replace `.` by the path of the folder. With bert_keras"
    yield from ("(TensorFlow, JAX or PyTorch):", "", "```python")
    yield from ("import bert_keras as bk", "")
    if tokenizer is None or model.task_name == "electra_pretraining":
        yield from ('model = bk.load_checkpoint(".")', "print(model.output)", "```")
    else:
        texts = ", ".join(map(repr, _example(model, tokenizer, config)))
        yield 'predictor = bk.Predictor.from_preset(".")'
        call = "predictor.predict_pair_scores" if "activation" in model.options else "predictor"
        if not task_format(type(model).__name__).is_text_classifier:
            call = "predictor"
        yield from (f"print({call}({texts}))".replace("'", '"'), "```")
    if tokenizer is None:
        yield from ("", "The folder has no tokenizer: the model takes token ids.")
    elif opens("sentence-transformers", model):
        yield from ("", "With sentence-transformers:", "", "```python")
        yield from _sentence_transformers(model)
    elif opens("transformers", model):
        yield from ("", "With transformers:", "", "```python")
        yield from _transformers(model, tokenizer, config)


def _sentence_transformers(model: BertEncoder | Task) -> Iterator[str]:
    """Yield the lines of a code block that opens the folder with sentence-transformers."""
    is_encoder = features.SENTENCE_VECTOR in model.output
    name = "SentenceTransformer" if is_encoder else "CrossEncoder"
    yield from (f"from sentence_transformers import {name}", "", f'model = {name}(".")')
    if is_encoder:
        yield 'print(model.encode(["A first text.", "A second one."]))'
    else:
        yield 'print(model.predict([("A first text.", "A second one.")]))'
    yield "```"


def _transformers(
    model: BertEncoder | Task, tokenizer: Tokenizer, config: PredictorConfig
) -> Iterator[str]:
    """Yield the lines of a code block that opens the folder with transformers."""
    encoder = encoder_of(model)
    values = hugging_face.write_config(encoder.config, type(model).__name__, model.options)
    (name,) = values["architectures"]
    texts = _example(model, tokenizer, config)
    is_choice = features.CHOICE in model.output
    if is_choice:  # a row for each option
        prompt, options = texts
        texts = ([prompt] * len(options), options)
    shown = ", ".join(map(repr, texts)).replace("'", '"')
    yield from (f"from transformers import AutoTokenizer, {name}", "")
    yield 'tokenizer = AutoTokenizer.from_pretrained(".")'
    yield f'model = {name}.from_pretrained(".")'
    padding = ", padding=True" if is_choice else ""
    yield f'inputs = tokenizer({shown}{padding}, return_tensors="pt")'
    if is_choice:
        yield "inputs = {name: value[None] for name, value in inputs.items()}"
    yield from ("print(model(**inputs))", "```")


def _example(
    model: BertEncoder | Task, tokenizer: Tokenizer, config: PredictorConfig
) -> tuple[Any, ...]:
    """Return the arguments of an example call: a text, two texts, or a prompt and its options."""
    first, second = "A first text.", "A second one."
    if model.fills_masks:
        return (f"A {tokenizer.scheme.special_tokens[-1]} text.",)
    if features.CHOICE in model.output:
        return first, [second, "One more."]
    is_scorer = task_format(type(model).__name__).is_text_classifier
    is_paired = config.pairs or model.reads_apart or (is_scorer and "activation" in model.options)
    count = len(model.answer_inputs(is_paired)) if is_task(model) else 1
    return (first, second)[:count]
