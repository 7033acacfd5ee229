"""The TensorFlow program inside a SavedModel: tokenizer, model and signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from bert_keras import features
from bert_keras.export import extras
from bert_keras.export.graph.entities import Entities
from bert_keras.export.graph.questions import Questions
from bert_keras.export.graph.texts import Texts, flat
from bert_keras.export.saving import save
from bert_keras.models import (
    BertEncoder,
    MultipleChoice,
    QuestionAnswerer,
    SentenceEncoder,
    SentencePairs,
    SequenceClassifier,
    Task,
    TokenClassifier,
)
from bert_keras.predictor import Predictor
from bert_keras.tokenizers.in_graph import InGraphTokenizer

# What signatures take: strings, one for each example, but for the options of choices.
_SHAPES = {"options": [None, None]}
DEFAULT, IDS, TRAINING = "serving_default", "ids", "training"

_Function = Callable[..., dict[str, tf.Tensor]]


def write(predictor: Predictor, folder: Path, path: Path, *, portable: bool) -> None:
    """Writes the SavedModel into an existing empty folder. TensorFlow backend only.

    Args:
        predictor: the model, its tokenizer, and how it is asked.
        folder: the folder.
        path: what it will be called.
        portable: see `saved_model`.
    """
    task = predictor.task
    root = tf.__internal__.tracking.AutoTrackable()
    root.tokenizer = InGraphTokenizer(predictor.tokenizer, portable=portable)
    # As attributes, not properties: only attributes are in a SavedModel, and a client trains them.
    root.variables = [variable.value for variable in task.variables]
    root.trainable_variables = [variable.value for variable in task.trainable_variables]
    functions = text_functions(predictor, root.tokenizer)
    signatures = {name: _concrete(function) for name, function in functions.items()}
    signatures[IDS] = _raw(task, training=False)
    signatures[TRAINING] = _raw(task, training=True)
    save(root, folder, signatures)
    extras.write(predictor, folder, path, signatures)


def text_functions(predictor: Predictor, tokenizer: InGraphTokenizer) -> dict[str, _Function]:
    """What a model answers texts with, by the signature's name; the arguments are its inputs.

    Args:
        predictor: how the model is asked.
        tokenizer: in the graph.
    """
    task, options, max_length = predictor.task, predictor.options, predictor.max_length
    pairs = predictor.pairs
    reading: dict[str, Any] = {"max_length": max_length, "prompt": predictor.prompt}
    reading["prompt_length"] = predictor.prompt_length(predictor.prompt)
    texts = Texts(task, tokenizer, **reading)
    if isinstance(task, SequenceClassifier):
        is_number = task.options["problem"] == "regression"
        answer = texts.numbers if is_number else partial(texts.labels, **options)
        return _either(
            pairs, texts=lambda text: answer(text), pairs=lambda text, pair: answer(text, pair)
        )
    if isinstance(task, TokenClassifier):
        found = Entities(task, tokenizer, max_length=max_length)
        return {DEFAULT: lambda text: found(text)}
    if isinstance(task, QuestionAnswerer):
        asked = Questions(task, tokenizer, max_length=max_length, **options)
        return {DEFAULT: lambda question, context: asked(question, context)}
    if isinstance(task, MultipleChoice):
        return {DEFAULT: texts.choices}
    if isinstance(task, SentencePairs) and task.head is not None:
        texts = Texts(task, tokenizer, max_length=max_length)  # labels are given without prompts
        return {DEFAULT: lambda text, pair: texts.labels(text, pair, **options)}
    if isinstance(task, SentencePairs):
        texts = Texts(task.sentence_encoder, tokenizer, **reading)
    if isinstance(task, SentenceEncoder | SentencePairs):
        return _either(pairs, vectors=texts.vectors, similarity=texts.similarity)
    if isinstance(task, BertEncoder):
        return {DEFAULT: texts.outputs}
    fills: dict[str, _Function] = {DEFAULT: lambda text: texts.fills(text, **options)}
    return fills | ({"next_sentence": texts.follows} if features.NSP in task.output else {})


def _either(is_second: bool, **functions: _Function) -> dict[str, _Function]:
    """Two functions, one of which is the default and the other has its name."""
    names = list(functions)
    return {
        DEFAULT: functions[names[is_second]],
        names[not is_second]: functions[names[not is_second]],
    }


def _concrete(function: _Function) -> Any:
    """A signature whose inputs are the function's arguments."""
    specs = {
        name: tf.TensorSpec(_SHAPES.get(name, [None]), tf.string, name=name)
        for name in inspect.signature(function).parameters
    }
    return tf.function(lambda **inputs: function(**inputs), autograph=False).get_concrete_function(
        **specs
    )


def _raw(task: Task | BertEncoder, *, training: bool) -> Any:
    """The model as it is: its inputs by name, int32 -> its outputs."""

    def run(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return flat(task(inputs, training=training))

    specs = {
        tensor.name: tf.TensorSpec(tensor.shape, tf.int32, name=tensor.name)
        for tensor in task.inputs
    }
    return tf.function(run, autograph=False).get_concrete_function(**specs)
