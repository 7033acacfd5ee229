"""Few-shot classification: an encoder trained on pairs of texts, then a logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import numpy as np

from bert_keras import features
from bert_keras.data import SupervisedExamples, Texts, dataset, label_names, length_multiple
from bert_keras.data.columns import labels_of, texts_of
from bert_keras.data.sentence_similarity import few_shot_examples, memberships
from bert_keras.errors import DataError
from bert_keras.inference import prompt_of
from bert_keras.inference.base import PredictorConfig
from bert_keras.inference.sentence_similarity import prompted
from bert_keras.layers.sharing import described
from bert_keras.models.compiling import compile_for
from bert_keras.models.sentence_pairs import SentencePairs
from bert_keras.models.sentence_similarity import SentenceEncoder
from bert_keras.models.task_views import Hidden, TaskView
from bert_keras.models.text_classification import FIRST_TOKEN, NORMALIZED, SequenceClassifier
from bert_keras.models.text_targets import named_targets, targets_from
from bert_keras.models.with_tokenizer import checked_length

# Options of a sentence encoder that change its vectors, and that a classifier has not.
_NOT_OF_CLASSIFIERS = ("include_prompt", "dense", "truncate_dim")
_PROMPTS = ("prompts", "default_prompt_name")
_SEED_STATE = "seed_generator_state"  # Keras's name of the state of a random generator


def fit_few_shot(
    sentence_encoder: SentenceEncoder,
    x: Any,
    y: Any,
    *,
    labels: Sequence[str] | None = None,
    problem: str = "single_label",
    epochs: int = 1,
    batch_size: int = 16,
    learning_rate: float = 2e-5,
    num_iterations: int | None = None,
    max_length: int | None = None,
    seed: int = 0,
    verbose: Any = "auto",
    callbacks: Any = None,
) -> SequenceClassifier:
    """Train a classifier on few labelled texts, such as 8 of each label (SetFit).

    First the sentence encoder is trained on pairs of the texts: the cosine of two texts with a
    common label becomes 1, that of others 0. Then scikit-learn's `LogisticRegression` is fitted on
    the vectors of the texts, and becomes the head (Tunstall et al., 2022, §3). The defaults are
    those of the library `setfit`. The same seed gives the same classifier on one backend.

    Args:
        sentence_encoder: a `SentenceEncoder` with a tokenizer. Its pooling is "mean" or "cls". It
            is trained, and the classifier shares its encoder.
        x: the texts.
        y: the label of each text, by name or index. With problem="multi_label" a tuple of labels
            for each text, or a row of 0 and 1 with one entry for each of `labels`.
        labels: names of the labels; None for those of `y`, sorted.
        problem: "single_label" or "multi_label". Several labels are one regression each.
        epochs: passes over the pairs; 0 trains the head alone.
        batch_size: pairs in a batch.
        learning_rate: highest rate of AdamW, after a warm-up over a tenth of the steps.
        num_iterations: number of pairs of each kind for each text; None for all combinations of
            two texts, see `contrastive_pairs`.
        max_length: largest number of tokens in a text; None for that of the sentence encoder.
        seed: seed of the pairs, of their order and of dropout.
        verbose: as in Keras's `fit`; 0 prints nothing.
        callbacks: as in Keras's `fit`.

    Returns:
        A classifier with the pooling, prompts and tokenizer of the sentence encoder.

    Raises:
        DataError: a row is no text, a label has no text, or all texts have one label.
        ImportError: scikit-learn is not installed.
        ValueError: a sentence encoder without tokenizer, or with other layers than a pooling.
    """
    _require_sklearn()
    texts = texts_of("x", x)
    if labels is None:
        if problem == "multi_label" and getattr(y, "ndim", 1) == 2:
            raise ValueError(
                "Rows of 0 and 1 do not name their labels. Pass `labels`, one for each column. "
                f"Received: y of the shape {y.shape}, labels=None"
            )
        labels = label_names(Texts(texts, None, labels_of("y", y)))
    targets = targets_from(named_targets(y, labels), labels, problem)
    task = classifier_over(sentence_encoder, labels, problem)
    length = sentence_encoder.max_length
    if max_length is not None:
        length = checked_length(max_length, task.encoder)
    task.predictor_config = PredictorConfig(length, {}, False)
    view = FewShot(task, texts, targets or ())
    if epochs:
        _reseed(view, seed)
        examples = view.examples(num_iterations, batch_size=batch_size, seed=seed)
        steps = examples.num_batches(0)
        compile_for(view, steps, epochs, callbacks, verbose, learning_rate)
        view.fit(dataset(examples), epochs=epochs, verbose=verbose, callbacks=callbacks)
    return view.trained_model()


def classifier_over(
    sentence_encoder: SentenceEncoder, labels: Sequence[str], problem: str
) -> SequenceClassifier:
    """Return a new classifier whose head reads the vectors of a sentence encoder.

    Raises:
        TypeError: another model.
        ValueError: no classifier computes such vectors.
    """
    if not isinstance(sentence_encoder, SentenceEncoder):
        raise TypeError(
            "Few-shot training starts with a sentence encoder, such as "
            "SentenceEncoder.from_preset(folder) opens. "
            f"Received: {type(sentence_encoder).__name__}"
        )
    sentence_encoder.required_tokenizer()
    options, poolings = sentence_encoder.options, FewShot.poolings
    unusual = {name: options[name] for name in _NOT_OF_CLASSIFIERS if name in options}
    if options["pooling"] not in poolings or unusual:
        raise ValueError(
            f"A classifier reads vectors of the poolings {' and '.join(poolings)}, without further "
            "layers. Make SentenceEncoder(encoder, pooling='mean', tokenizer=tokenizer) over the "
            f"same encoder. Received: pooling={options['pooling']!r}"
            + "".join(f", {name}={value!r:.100}" for name, value in unusual.items())
        )
    prompts = {name: options[name] for name in _PROMPTS if name in options}
    return SequenceClassifier(
        sentence_encoder.encoder,
        labels=labels,
        problem=problem,
        pooling=poolings[options["pooling"]],
        normalize=options["normalize"],
        tokenizer=sentence_encoder.tokenizer,
        **prompts,
    )


@keras.saving.register_keras_serializable(package="bert_keras")
class FewShot(TaskView):
    """A view of a classifier that trains its encoder on pairs of texts, and then its head (SetFit).

    Train the view on `examples`, with `loss_and_metrics`. Then `trained_model` returns the
    classifier, with a head for the vectors that the encoder makes now. `fit_few_shot` does both.

    Inputs: the encoder's, for two texts each: int32 [batch, 2, length].
    Output: {"similarity": the cosine of the two vectors, float32 [batch, 1]}.

    `keras.models.clone_model` leaves out the head, because no output of the view depends on it.

    Args:
        task: a classifier of pooling "mean" or "first_token", whose head is one dense layer. It
            needs a tokenizer before it is trained.
        texts: the texts.
        targets: the label of each text; a tuple of labels for a `multi_label` task.

    Raises:
        DataError: an unknown label, or a label without texts.
        ValueError: the head of the classifier has other layers.
    """

    # Pooling of a sentence encoder -> that of a classifier with the same vectors.
    poolings: ClassVar[dict[str, str]] = {"mean": "mean", "cls": FIRST_TOKEN}

    def __init__(self, task: SequenceClassifier, texts: Sequence[str], targets: Sequence[Any]):
        options = task.options
        pooling, activation = options.get("pooling", "cls"), options["hidden_activation"]
        if pooling not in NORMALIZED or activation is not None or "representation" in options:
            raise ValueError(
                "Few-shot training fits one dense layer over the vectors of the last layer. Make "
                "the classifier with pooling='mean', normalize=True and no hidden_activation. "
                f"Received: {pooling=}, hidden_activation={activation!r}, "
                f"representation={options.get('representation', 'last')!r}"
            )
        rows = [tuple(row) if isinstance(row, list) else row for row in targets]  # as from JSON
        examples = Texts(texts, None, rows)
        members = memberships(examples, options["labels"], options["problem"])
        _check_members(members, options["labels"], options["problem"])
        pairs = SentencePairs(
            task.encoder,
            loss=features.SIMILARITY,
            pooling=next(ours for ours, theirs in self.poolings.items() if theirs == pooling),
            normalize=options.get("normalize", False),
            tokenizer=task.tokenizer,
        )
        super().__init__(task, dict(pairs.input), dict(pairs.output), name="few_shot")
        self._pairs, self._members, self._examples = Hidden(pairs), members, examples

    @property
    def unused_variables(self) -> Sequence[Any]:
        """The head of the classifier, which no gradient trains, and an unused pooler."""
        return (*super().unused_variables, *self.task.head.variables)

    @described
    def get_config(self) -> dict[str, Any]:
        """Return the config for `from_config`: the classifier, the texts and their labels."""
        task = keras.saving.serialize_keras_object(self.task)
        examples = self._examples
        rows = [list(row) if isinstance(row, tuple) else row for row in examples.targets or ()]
        return {"name": self.name, "task": task, "texts": [*examples.texts], "targets": rows}

    def examples(
        self, num_iterations: int | None = None, *, batch_size: int = 16, seed: int = 0
    ) -> SupervisedExamples:
        """Return the pairs to train on; see `data.sentence_similarity.few_shot_examples`."""
        task = self.task
        return few_shot_examples(
            task.required_tokenizer(),
            Texts(self._prompted(), None, self._examples.targets),
            task.options["labels"],
            task.options["problem"],
            num_iterations=num_iterations,
            max_length=task.max_length,
            batch_size=batch_size,
            multiple_of=length_multiple(),
            segments=features.SEGMENT_IDS in self.input,
            seed=seed,
        )

    def loss_and_metrics(self) -> dict[str, Any]:
        """Return the squared error of the cosines of pairs, whose scores are 1 and 0."""
        return self._pairs.model.loss_and_metrics()

    def trained_model(self) -> SequenceClassifier:
        """Fit the head on the vectors that the encoder makes now, and return the classifier."""
        encoder = self._pairs.model.sentence_encoder
        encoder.take_attachments(self.task)
        vectors = encoder.encode(self._prompted(), long_texts="truncate")
        problem = self.task.options["problem"]
        kernel, bias = _logistic_regression(vectors, self._members, problem)
        output = self.task.head.output_projection
        output.kernel.assign(kernel)
        output.bias.assign(bias)
        return self.task

    def _prompted(self) -> Sequence[str]:
        """Return the texts with the prompt that the classifier puts before them."""
        return prompted(self._examples.texts, prompt_of(self.task.options))


# === Head ===


def _require_sklearn() -> None:
    """Raise `ImportError` with what to install, before anything is trained."""
    try:
        import sklearn.linear_model  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "Few-shot training fits its head with scikit-learn, which is not installed: "
            'pip install "bert-keras[finetune]"'
        ) from error


def _check_members(members: np.ndarray, labels: Sequence[str], problem: str) -> None:
    """Raise `DataError` for a label that no text has, or that all have."""
    counts = members.sum(axis=0)
    if len(labels) < 2 and problem == "single_label":
        raise DataError(
            "Few-shot training needs texts with different labels. Received: all "
            f"{len(members)} texts have the label {labels[0]!r}"
        )
    if missing := [label for label, count in zip(labels, counts, strict=True) if not count]:
        raise DataError(
            f"Few-shot training needs a text of every label. Received: none of {missing[0]!r}. Add "
            "such texts, or leave the label out."
        )
    if every := [label for label, n in zip(labels, counts, strict=True) if n == len(members)]:
        raise DataError(
            f"Few-shot training needs texts without the label {every[0]!r} too. Received: all "
            f"{len(members)} texts have it. Add texts without it, or leave the label out."
        )


def _logistic_regression(
    vectors: np.ndarray, members: np.ndarray, problem: str
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a logistic regression; return the kernel and the bias of a dense layer.

    The softmax, or for "multi_label" the sigmoid, of the layer's outputs are its probabilities.

    Args:
        vectors: float32 [texts, size].
        members: which labels each text has, bool [texts, classes].
        problem: "single_label" or "multi_label", which is one regression for each label.

    Returns:
        float32 [size, classes] and float32 [classes].
    """
    _require_sklearn()
    from sklearn.linear_model import LogisticRegression

    columns = [members.argmax(axis=1)] if problem == "single_label" else list(members.T)
    fitted = [LogisticRegression().fit(vectors, column) for column in columns]
    kernel = np.concatenate([regression.coef_ for regression in fitted]).T
    bias = np.concatenate([regression.intercept_ for regression in fitted])
    if problem == "single_label" and members.shape[1] == 2:
        # One number is the difference of the two logits.
        kernel, bias = kernel * [[-0.5, 0.5]], bias * [-0.5, 0.5]
    return kernel.astype(np.float32), bias.astype(np.float32)


def _reseed(view: FewShot, seed: int) -> None:
    """Start the random generators of dropout anew, so that a seed gives the same training again."""
    states = [variable for variable in view.variables if variable.path.endswith(_SEED_STATE)]
    numbers = np.random.SeedSequence(seed).generate_state(len(states))
    for state, number in zip(states, numbers, strict=True):
        state.assign(np.array([number, 0], np.uint32))
