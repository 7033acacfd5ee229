"""Fine-tuning of token classification: named entities as tags of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bert_keras import file_io, metrics
from bert_keras.data import (
    SupervisedExamples,
    TaggedWords,
    annotation_format,
    label_names,
    read_conll,
    read_entities,
    tag_examples,
    to_bio,
)
from bert_keras.errors import DataError, UsageError
from bert_keras.models import BertEncoder, Task, TokenClassifier
from bert_keras.predictor import Label, Predictor, entity_tags
from bert_keras.tokenizers import Tokenizer
from bert_keras.training.finetune_recipe import FinetuneRecipe, usual_values
from bert_keras.training.tasks.task import Evaluation, FinetuningTask, HardExample

_OUTSIDE = "O"


class TokenClassificationTask(FinetuningTask):
    """Task of a `TokenClassifier` with the tags B-X, I-X and O."""

    extension: ClassVar[str] = "conll"

    def read(self, path: str, *, labelled: bool = True) -> TaggedWords:
        """Read columns of words and tags, as in CoNLL-2003, or texts with spans.

        The content of the file decides. The name of another format than columns is printed.
        """
        recipe = self.recipe
        if kind := annotation_format(path, text=_named(recipe, "text")):
            data = read_entities(
                path,
                text=_named(recipe, "text"),
                entities=_named(recipe, "label"),
                labelled=labelled,
                misaligned=recipe.misaligned,
                scheme=recipe.scheme,
                repair=recipe.repair,
                encoding=recipe.encoding,
            )
            count = sum(len(metrics.entity_spans(list(tags))) for tags in data.tags or ())
            found = f", {count:,} entities" if labelled else ""
            print(f"{path}: {kind}; {len(data):,} rows{found}")
            return data
        return read_conll(
            path,
            word_column=recipe.word_column,
            tag_column=recipe.tag_column if labelled else None,
            scheme=recipe.scheme,
            repair=recipe.repair,
            numbered_characters=recipe.numbered_characters,
            encoding=recipe.encoding,
        )

    has_confusion = True  # pyright: ignore[reportAssignmentType]

    def row_lengths(self, tokenizer: Tokenizer, data: TaggedWords) -> np.ndarray:
        """Return the number of tokens of each sentence."""
        counts = np.array([len(words) for words in data.words])
        _, lengths = tokenizer.ragged_ids([word for words in data.words for word in words])
        sums = np.add.reduceat(lengths, np.cumsum(counts) - counts)
        return sums + tokenizer.scheme.num_added(1)

    def labels(self, data: TaggedWords) -> list[str]:
        """Return O, and B-X and I-X for every type X of the recipe, or else of the examples.

        A type without a name has the tags B and I.
        """
        of_examples = {name.partition("-")[2] for name in label_names(data)[1:]}
        of_recipe = {name.strip() for name in self.recipe.labels.split(",") if name.strip()}
        types = sorted(of_recipe or of_examples)
        return ["O", *(f"{letter}-{name}" if name else letter for name in types for letter in "BI")]

    def check(self, data: TaggedWords, labels: list[str] | None) -> None:
        """Check that the sentences have tags, and that the model's labels mark entities."""
        if data.tags is None:
            raise DataError(
                f"The sentences have no tags to compare with. Received: {len(data)} sentences "
                "without tags. Use a file with a tag for every word."
            )
        if not _mark_entities(entity_tags(labels or ())):
            shown = ", ".join(labels or ())
            raise UsageError(
                "The model's labels do not mark entities: they need forms such as B-PER and "
                f"I-PER. Received: {shown:.200}. Choose a model for named entities."
            )

    def build(self, encoder: BertEncoder, labels: list[str] | None) -> Task:
        """Return a model that tags every token."""
        assert labels is not None
        recipe = self.recipe
        options = {"dropout": recipe.dropout, "crf": recipe.crf}
        options["representation"] = recipe.representation
        return TokenClassifier(encoder, len(labels), labels=labels, **options)

    def examples(
        self, tokenizer: Tokenizer, data: TaggedWords, labels: list[str] | None, **options: Any
    ) -> SupervisedExamples:
        """Return rows of whole words, with a tag for the first token of each word or for all."""
        assert labels is not None
        return tag_examples(
            tokenizer,
            data,
            labels=labels,
            all_pieces=self.recipe.all_pieces,
            max_length=self.recipe.max_length,
            **options,
        )

    def evaluate(self, predictor: Predictor, data: TaggedWords) -> Evaluation:
        """Compute the F1 of entities as seqeval and conlleval do, for all and for each type."""
        predicted = predictor.predict_tags(data.words)
        answered = _in_bio(predicted, predictor)
        right = [list(tags) for tags in data.tags or ()]
        scores = metrics.entity_scores(right, answered)
        strict = metrics.entity_scores(right, answered, scheme="IOB2")
        measured = {
            **{name: value for name, value in scores.items() if not name.endswith("support")},
            "f1_strict": strict["f1"],
        }
        worst = [
            HardExample(
                max(t.score for t, a, b in zip(tags, wanted, got, strict=True) if a != b),
                " ".join(words),
                _marked(words, wanted),
                _marked(words, got),
            )
            for words, tags, wanted, got in zip(data.words, predicted, right, answered, strict=True)
            if wanted != got
        ]
        confidences = (
            np.array([tag.score for tags in predicted for tag in tags]),
            np.array(
                [
                    a == b
                    for tags in zip(right, answered, strict=True)
                    for a, b in zip(*tags, strict=True)
                ]
            ),
        )
        return Evaluation(measured, answered, worst, _confusion(right, answered), confidences)

    def predict(self, predictor: Predictor, data: TaggedWords) -> list[list[str]]:
        """Return a tag for every word."""
        return _in_bio(predictor.predict_tags(data.words), predictor)

    def quicktest_data(self, folder: Path) -> dict[str, str]:
        """Write sentences with names of persons and places."""
        path = folder / "train.conll"
        sentences = [
            "Ada B-PER\nis O\nin O\nRome B-LOC\n",
            "the O\nfilm O\nwas O\nin O\nRome B-LOC\n",
        ]
        file_io.write_text(path, "\n".join(sentences * 4))
        return {"train": str(path)}

    def write(self, path: Path, data: TaggedWords, predictions: Sequence[Any]) -> None:
        """Write the columns that conlleval reads: word, right tag if known, predicted tag.

        The separator is a space, or a tab if a word or a tag has a space.
        """
        columns = [data.words, *([data.tags] if data.tags else []), predictions]
        separator = (
            "\t" if any(" " in text for rows in columns for row in rows for text in row) else " "
        )
        sentences = [
            "".join(f"{separator.join(row)}\n" for row in zip(*rows, strict=True))
            for rows in zip(*columns, strict=True)
        ]
        file_io.write_text(path, "\n".join(sentences))


def _named(recipe: FinetuneRecipe, key: str) -> str | None:
    """Return a key of the examples that the recipe names; None for its default value."""
    value = getattr(recipe, key)
    return None if value == usual_values()[key] else value


def _mark_entities(known: Mapping[str, str]) -> bool:
    """Return whether a label has a tag other than "O"; `known` is label -> tag."""
    return any(tag != _OUTSIDE for tag in known.values())


def _in_bio(predicted: Sequence[Sequence[Label]], predictor: Predictor) -> list[list[str]]:
    """Return predicted tags as BIO tags, whatever scheme the model was trained with.

    Labels that mark no entities, such as parts of speech, are returned as they are.
    """
    known = entity_tags(predictor.label_names)
    if not _mark_entities(known):
        return [[tag.label for tag in tags] for tags in predicted]
    rows = [[known.get(tag.label, _OUTSIDE) for tag in tags] for tags in predicted]
    if any(tag[:1] in ("E", "S") for tag in known.values()):
        rows = [to_bio(tags, "bioes", repair=True) for tags in rows]
    return rows


def _confusion(right: Sequence[Sequence[str]], answered: Sequence[Sequence[str]]) -> Any:
    """Return the names of the entity types, and counts of words [right type, predicted type]."""
    types = [
        [tag if tag == _OUTSIDE else tag.partition("-")[2] or "_" for tags in rows for tag in tags]
        for rows in (right, answered)
    ]
    names = [_OUTSIDE, *sorted({*types[0], *types[1]} - {_OUTSIDE})]
    number = {name: index for index, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), np.int64)
    np.add.at(counts, tuple(np.array([[number[name] for name in row] for row in types])), 1)
    return names, counts


def _marked(words: Sequence[str], tags: Sequence[str]) -> str:
    """Return the entities of a sentence for people: "Ada (PER), Rome (LOC)", or "nothing"."""
    spans = metrics.entity_spans(tags)
    return ", ".join(f"{' '.join(words[s.start : s.end])} ({s.label})" for s in spans) or "nothing"
