"""Fine-tuning with transformers on PyTorch as its documentation shows: `finetune_parity`'s peer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch
import transformers

from bert_keras.data import targets_of
from bert_keras.predictor import Answer, Label
from bert_keras.training.finetune_data import Data
from bert_keras.training.finetune_recipe import FinetuneRecipe
from bert_keras.training.tasks import FinetuningTask

_EVALUATION_BATCH = 32
_TRIED = 20  # best starts and best ends that are combined to answers

Features = list[dict[str, Any]]


def padded(tokenizer: Any, rows: Features) -> dict[str, torch.Tensor]:
    """Return a batch padded to its longest row, with token labels padded with -100."""
    inputs = [{k: v for k, v in row.items() if k in _INPUTS} for row in rows]
    batch = dict(tokenizer.pad(inputs, return_tensors="pt"))
    width = batch["input_ids"].shape[1]
    for name in rows[0].keys() - _INPUTS:
        values = [row[name] for row in rows]
        if isinstance(values[0], list):
            values = [value + [-100] * (width - len(value)) for value in values]
        batch[name] = torch.tensor(values)
    return batch


_INPUTS = {"input_ids", "token_type_ids", "attention_mask"}


class _Work:
    def __init__(self, recipe: FinetuneRecipe, data: Data, tokenizer: Any):
        self.recipe, self.data, self.tokenizer = recipe, data, tokenizer

    def encode(self, *texts: Any, **options: Any) -> Any:
        return self.tokenizer(*texts, truncation=True, max_length=self.recipe.max_length, **options)

    def logits(self, model: Any, rows: Features) -> list[Any]:
        """Return the logits of all rows, in their order; batches have rows of similar length."""
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]["input_ids"]))
        results: list[Any] = [None] * len(rows)
        for first in range(0, len(order), _EVALUATION_BATCH):
            numbers = order[first : first + _EVALUATION_BATCH]
            with torch.inference_mode():
                output = model(**padded(self.tokenizer, [rows[number] for number in numbers]))
            for index, number in enumerate(numbers):
                results[number] = self.pick(output, index)
        return results

    def pick(self, output: Any, index: int) -> Any:
        return output.logits[index].numpy()


class _Texts(_Work):
    @property
    def problem(self) -> str:
        return "regression" if self.recipe.task == "text_regression" else "single_label"

    def model(self, encoder: str) -> Any:
        return transformers.AutoModelForSequenceClassification.from_pretrained(
            encoder,
            num_labels=len(self.data.labels or [""]),
            classifier_dropout=self.recipe.dropout,
        )

    def rows(self, data: Any) -> Features:
        encoded = self.encode(list(data.texts), list(data.pairs) if data.pairs else None)
        return [{k: encoded[k][i] for k in encoded} for i in range(len(data.texts))]

    def training_rows(self) -> Features:
        targets = targets_of(self.data.train, self.data.labels, self.problem)
        rows = self.rows(self.data.train)
        for row, target in zip(rows, targets.reshape(-1).tolist(), strict=True):
            row["labels"] = target
        return rows

    def predictor(self, model: Any) -> Any:
        rows = self.rows(self.data.validation)
        logits = np.stack(self.logits(model, rows))
        scores = logits
        if self.problem == "single_label":
            scores = np.exp(logits - logits.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        return _Answers(predict_scores=lambda *_: scores, label_names=self.data.labels)


class _Words(_Work):
    def model(self, encoder: str) -> Any:
        return transformers.AutoModelForTokenClassification.from_pretrained(
            encoder,
            num_labels=len(self.data.labels or ()),
            classifier_dropout=self.recipe.dropout,
        )

    def rows(self, sentences: Sequence[Sequence[str]]) -> tuple[Features, list[list[int | None]]]:
        encoded = self.encode([list(words) for words in sentences], is_split_into_words=True)
        rows = [{k: encoded[k][i] for k in encoded} for i in range(len(sentences))]
        return rows, [encoded.word_ids(i) for i in range(len(sentences))]

    def training_rows(self) -> Features:
        number = {name: index for index, name in enumerate(self.data.labels or ())}
        rows, words = self.rows(self.data.train.words)
        for row, owners, tags in zip(rows, words, self.data.train.tags, strict=True):
            before, labels = None, []
            for owner in owners:
                is_first = owner is not None and owner != before
                labels.append(number[tags[owner]] if is_first else -100)
                before = owner
            row["labels"] = labels
        return rows

    def predictor(self, model: Any) -> Any:
        rows, owners = self.rows(self.data.validation.words)
        names = self.data.labels or []
        answered = []
        for words, logits, own in zip(
            self.data.validation.words, self.logits(model, rows), owners, strict=True
        ):
            tags = [Label("O", 0.0)] * len(words)
            for place in reversed(range(len(own))):
                word = own[place]
                if word is not None:  # in reverse order the first piece of a word overwrites
                    tags[word] = Label(names[int(logits[place].argmax())], 1.0)
            answered.append(tags)
        return _Answers(predict_tags=lambda _: answered, label_names=names)


class _Questions(_Work):
    def model(self, encoder: str) -> Any:
        return transformers.AutoModelForQuestionAnswering.from_pretrained(encoder)

    def rows(self, questions: Sequence[Any]) -> tuple[Features, Any]:
        recipe = self.recipe
        encoded = self.tokenizer(
            [question.question for question in questions],
            [question.context for question in questions],
            truncation="only_second",
            max_length=recipe.max_length,
            stride=max(1, recipe.max_length - recipe.stride - 40),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        count = len(encoded["input_ids"])
        return [{k: encoded[k][i] for k in _INPUTS} for i in range(count)], encoded

    def training_rows(self) -> Features:
        rows, encoded = self.rows(self.data.train)
        for index, row in enumerate(rows):
            question = self.data.train[encoded["overflow_to_sample_mapping"][index]]
            row["start_positions"], row["end_positions"] = 0, 0
            if not question.answers:
                continue
            start = question.answers[0].start
            stop = start + len(question.answers[0].text)
            offsets, parts = encoded["offset_mapping"][index], encoded.sequence_ids(index)
            text = [place for place, part in enumerate(parts) if part == 1]
            inside = [p for p in text if offsets[p][1] > start and offsets[p][0] < stop]
            if inside and offsets[inside[0]][0] <= start and offsets[inside[-1]][1] >= stop:
                row["start_positions"], row["end_positions"] = inside[0], inside[-1]
        return rows

    def pick(self, output: Any, index: int) -> Any:
        return output.start_logits[index].numpy(), output.end_logits[index].numpy()

    def predictor(self, model: Any) -> Any:
        rows, encoded = self.rows(self.data.validation)
        best: dict[int, tuple[float, str]] = {}
        for index, (start, end) in enumerate(self.logits(model, rows)):
            number = encoded["overflow_to_sample_mapping"][index]
            offsets = encoded["offset_mapping"][index]
            inside = {p for p, s in enumerate(encoded.sequence_ids(index)) if s == 1}
            firsts = [p for p in np.argsort(-start)[:_TRIED] if p in inside]
            lasts = [p for p in np.argsort(-end)[:_TRIED] if p in inside]
            for a in firsts:
                for b in lasts:
                    if 0 <= b - a < self.recipe.max_answer:
                        text = self.data.validation[number].context[offsets[a][0] : offsets[b][1]]
                        score = float(start[a] + end[b])
                        best[number] = max(best.get(number, (-np.inf, "")), (score, text))
        answers = [
            Answer(best.get(number, (0.0, ""))[1], 0, 0, 0.0, 0.0)
            for number in range(len(self.data.validation))
        ]
        return _Answers(predict_answers=lambda *_, **__: answers)


class _Answers:
    """Stand-in for a predictor, with the answers that a `FinetuningTask` evaluates."""

    def __init__(self, **answers: Any):
        vars(self).update(answers)


WORKS: dict[str, Callable[..., Any]] = {
    "text_classification": _Texts,
    "text_regression": _Texts,
    "token_classification": _Words,
    "question_answering": _Questions,
}


# === Training and evaluation ===
# The loop has dynamic padding, PyTorch's fused AdamW without weight decay of biases and LayerNorm,
# warm-up, linear decay and gradient clipping. All values are those of the recipe. The metrics are
# computed by the same code as for bert_keras.


_UNDECAYED = ("bias", "LayerNorm.weight")


def run(
    recipe: FinetuneRecipe, kind: FinetuningTask, data: Data, encoder: str, seed: int
) -> dict[str, Any]:
    """Fine-tune and evaluate with one seed.

    Args:
        recipe: the recipe, which bert_keras uses too.
        kind: the task, which evaluates the predictions.
        data: training and validation examples.
        encoder: folder of the pretrained model.
        seed: the seed.

    Returns:
        "metrics" on dev; "seconds" of training with tokenisation; "rows", the number of training
        rows.
    """
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    work = WORKS[recipe.task](recipe, data, tokenizer)
    model = work.model(encoder)
    start = perf_counter()
    rows = work.training_rows()
    _train(recipe, model, tokenizer, rows, seed)
    seconds = perf_counter() - start
    model.eval()
    evaluation = kind.evaluate(work.predictor(model), data.validation)
    return {"metrics": dict(evaluation.metrics), "seconds": seconds, "rows": len(rows)}


def _train(recipe: FinetuneRecipe, model: Any, tokenizer: Any, rows: Features, seed: int) -> None:
    steps = recipe.epochs * -(-len(rows) // recipe.batch_size)
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if _is_decayed(n)], "weight_decay": recipe.weight_decay},
        {"params": [p for n, p in named if not _is_decayed(n)], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=True)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, round(recipe.warmup * steps), steps
    )
    order = random.Random(seed)
    model.train()
    for _ in range(recipe.epochs):
        numbers = list(range(len(rows)))
        order.shuffle(numbers)
        for first in range(0, len(numbers), recipe.batch_size):
            batch = [rows[number] for number in numbers[first : first + recipe.batch_size]]
            loss = model(**padded(tokenizer, batch)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def _is_decayed(name: str) -> bool:
    return not any(part in name for part in _UNDECAYED)
