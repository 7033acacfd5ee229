"""Token classification: tags, metrics, and the columns of predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bert_keras.data import TaggedWords, read_conll
from bert_keras.errors import DataError, UsageError
from bert_keras.features import TAGS
from bert_keras.predictor import Label

_DATA = TaggedWords(
    [["a", "bc", "d"], ["e", "f"]], [["B-X", "I-X", "O"], ["O", "B-Y"]], ["f:1", "f:5"]
)


_NAMES = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def _tags(*sentences: str) -> list[list[Label]]:
    return [[Label(tag, 0.5 + 0.1 * i) for i, tag in enumerate(tags.split())] for tags in sentences]


def test_columns(tmp_path: Path, kind) -> None:
    path = tmp_path / "train.txt"
    path.write_text("-DOCSTART- -X- O\n\na NN I-PER\nb NN O\n\nc VB I-LOC\n")
    found = kind("token_classification", scheme="iob1").read(str(path))
    assert found.tags == (("B-PER", "O"), ("B-LOC",))
    found = kind("token_classification", word_column=1, tag_column=0, scheme="iob1")
    with pytest.raises(DataError, match="unknown tag 'a'"):
        found.read(str(path))
    assert kind("token_classification").read(str(path), labelled=False).tags is None


def test_spans_of_characters(tmp_path: Path, kind, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "Ann is in Rome", "label": [[0, 3, "PER"], [11, 14, "LOC"]]}\n')
    with pytest.raises(DataError, match=r"train\.jsonl:1: .* 'ome' begins within the word 'Rome'"):
        kind("token_classification").read(str(path))
    found = kind("token_classification", misaligned="widen").read(str(path))
    assert found.tags == (("B-PER", "O", "O", "B-LOC"),)
    assert f"{path}: JSON of texts with spans; 1 rows, 2 entities" in capsys.readouterr().out
    assert kind("token_classification").read(str(path), labelled=False).tags is None
    path.write_text('{"文本": "Ann", "标签": [[0, 3, "人"]]}\n')
    found = kind("token_classification", text="文本", label="标签").read(str(path))
    assert found.tags == (("B-人",),)


def test_tags_of_every_type_begin_and_go_on(kind) -> None:
    assert kind("token_classification").labels(_DATA) == ["O", "B-X", "I-X", "B-Y", "I-Y"]
    assert kind("token_classification", labels="Z, X").labels(_DATA) == [
        "O",
        "B-X",
        "I-X",
        "B-Z",
        "I-Z",
    ]


def test_one_type_needs_no_name(kind, tmp_path: Path) -> None:
    path = tmp_path / "genes.txt"
    path.write_text("a B\nb I\nc O\n")
    data = kind("token_classification").read(str(path))
    assert kind("token_classification").labels(data) == ["O", "B", "I"]
    assert kind("token_classification", labels="X").labels(data) == ["O", "B-X", "I-X"]


def test_broken_spans_are_read_where_that_is_asked_for(kind, tmp_path: Path) -> None:
    path = tmp_path / "broken.txt"
    path.write_text("a B-X\nb O\nc S-X\n")
    with pytest.raises(DataError, match="repair=true to read broken spans"):
        kind("token_classification").read(str(path))
    assert kind("token_classification", repair=True).read(str(path)).tags == (("B-X", "O", "B-X"),)


def test_splitting_keeps_sentences_together(kind) -> None:
    train, validation = kind("token_classification").split(_DATA, 0.5)
    assert (train.words, validation.words, validation.tags, validation.places) == (
        [["a", "bc", "d"]],
        [["e", "f"]],
        [["O", "B-Y"]],
        ["f:5"],
    )


@pytest.mark.parametrize(("all_pieces", "counted"), [(True, 6), (False, 5)])
def test_examples(all_pieces: bool, counted: int, kind, tokenizer) -> None:
    made = kind("token_classification", all_pieces=all_pieces)
    names = made.labels(_DATA)
    options = {"segments": False, "batch_size": 2, "multiple_of": 8, "seed": None}
    _, y, weights = made.examples(tokenizer, _DATA, names, **options).batch(0, 0)
    # "bc" has two word pieces. The second has a label only with `all_pieces`.
    assert np.count_nonzero(weights[TAGS]) == counted
    assert y[TAGS][0, 1:4].tolist() == [1, 2, 2]


def test_model_and_what_can_be_measured(kind, encoder) -> None:
    model = kind("token_classification", dropout=0.0).build(encoder, ["O", "B-X", "I-X"])
    assert model.options["labels"] == ["O", "B-X", "I-X"]
    kind("token_classification").check(_DATA, ["O", "S-X"])
    with pytest.raises(DataError, match="no tags"):
        kind("token_classification").check(TaggedWords([["a"]]), ["O"])


def test_labels_that_mark_nothing(kind) -> None:
    data = TaggedWords([["a"]], [["O"]])
    with pytest.raises(UsageError, match=r"do not mark entities.* Received: LABEL_0, LABEL_1"):
        kind("token_classification").check(data, ["LABEL_0", "LABEL_1"])


def test_measures(kind, predictor) -> None:
    answers = predictor(_NAMES, predict_tags=_tags("I-X I-X O", "B-Y O"))
    found = kind("token_classification").evaluate(answers, _DATA)
    assert next(iter(found.metrics)) == "f1"
    assert found.metrics["f1"] == 0.5
    assert found.metrics["X_f1"] == 1.0  # an I tag without a B tag starts an entity,
    assert found.metrics["f1_strict"] == 0.0  # but the strict metric ignores it
    assert not any("support" in name for name in found.metrics)
    assert found.predictions == [["I-X", "I-X", "O"], ["B-Y", "O"]]
    marks = {(w.text, w.right, w.answered) for w in found.worst}
    assert ("e f", "f (Y)", "e (Y)") in marks
    assert found.worst[0].score == pytest.approx(0.6)
    names, counts = found.confusion
    assert names == ["O", "X", "Y"]
    assert counts.tolist() == [[1, 0, 1], [0, 2, 0], [1, 0, 0]]
    assert not found.is_constant


def test_a_model_that_finds_nothing(kind, predictor) -> None:
    found = kind("token_classification").evaluate(
        predictor(_NAMES, predict_tags=_tags("O O O", "O O")), _DATA
    )
    assert found.metrics["f1"] == 0.0
    assert found.is_constant


@pytest.mark.parametrize("letters", ["IES", "MES", "ILU"])
def test_models_with_tags_of_other_schemes(letters: str, kind, predictor) -> None:
    """Models with another tag scheme are measured, and write predictions, in the file's scheme."""
    inside, end, alone = letters
    labels = ["O", "B-X", f"{inside}-X", f"{end}-X", f"{alone}-Y", "[PAD]"]
    kind("token_classification").check(_DATA, labels)
    tagged = _tags(f"B-X {end}-X [PAD]", f"O {alone}-Y")
    found = kind("token_classification").evaluate(predictor(labels, predict_tags=tagged), _DATA)
    assert found.metrics["f1"] == found.metrics["f1_strict"] == 1.0
    assert found.predictions == _DATA.tags
    assert (
        kind("token_classification").predict(predictor(labels, predict_tags=tagged), _DATA)
        == _DATA.tags
    )


def test_predictions_have_the_columns_of_conlleval(kind, predictor, tmp_path: Path) -> None:
    made, path = kind("token_classification"), tmp_path / "p.conll"
    answered = made.predict(predictor(_NAMES, predict_tags=_tags("B-X O O", "O O")), _DATA)
    made.write(path, _DATA, answered)
    assert path.read_text() == "a B-X B-X\nbc I-X O\nd O O\n\ne O O\nf B-Y O\n"
    assert read_conll(path).words == (("a", "bc", "d"), ("e", "f"))
    made.write(path, TaggedWords([["a b", "c"]]), [["B-X", "O"]])
    assert path.read_text() == "a b\tB-X\nc\tO\n"
