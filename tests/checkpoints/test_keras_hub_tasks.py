"""KerasHub tasks have the same outputs here, and the same weights in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bert_keras import (
    BertEncoder,
    MaskedLM,
    SequenceClassifier,
    TokenClassifier,
    from_keras_hub,
    load_checkpoint,
    save_checkpoint,
)
from bert_keras.checkpoints import keras_hub as module
from bert_keras.checkpoints.keras_hub import to_keras_hub
from bert_keras.checkpoints.keras_hub_names import BACKBONES
from bert_keras.errors import UsageError
from bert_keras.models import Task
from tests import contracts, reference
from tests.contracts import TINY

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "TextClassifier": {"num_classes": 3, "dropout": 0.25},
    "TextEmbedder": {"pooling_mode": "max", "normalize": False},
}
_CASES = [(backbone, ending) for backbone, row in BACKBONES.items() for ending in row.heads]
_TANH = TINY.replace(activation="gelu_tanh")


def _theirs(library: Any, backbone: str, ending: str, **changes: Any) -> Any:
    """Return a small KerasHub task with random weights."""
    task_class = getattr(library.models, backbone.removesuffix("Backbone") + ending)
    arguments = {**_ARGUMENTS.get(ending, {}), **changes}
    return contracts.as_trained(
        task_class(backbone=reference.keras_hub_model(library, backbone), **arguments)
    )


@pytest.fixture(scope="module", params=_CASES, ids="".join)
def theirs(request: pytest.FixtureRequest, keras_hub: Any) -> Any:
    return _theirs(keras_hub, *request.param)


def _same_outputs(ours: Any, theirs: Any) -> None:
    """Check that a task of this package and one of KerasHub have the same outputs."""
    assert isinstance(ours, Task)
    x = contracts.inputs_of(ours)
    expected = contracts.numpy(theirs({tensor.name: x[tensor.name] for tensor in theirs.inputs}))
    (found,) = contracts.numpy(ours(x)).values()
    contracts.assert_close(found, expected, reference.TOLERANCE)


def _same(again: Any, theirs: Any) -> None:
    """Check that two KerasHub tasks have the same class, weights and head config.

    An XLM-R task comes back as a RoBERTa task.
    """
    assert type(again).__name__ == type(theirs).__name__
    contracts.assert_same_weights(again, theirs)
    told, expected = (
        {key: value for key, value in model.get_config().items() if key not in ("backbone", "name")}
        for model in (again, theirs)
    )
    assert told == expected


def test_in_memory_there_and_back(theirs: Any) -> None:
    ours = from_keras_hub(theirs)
    _same_outputs(ours, theirs)
    _same(to_keras_hub(ours), theirs)


def test_folders_there_and_back(theirs: Any, keras_hub: Any, tmp_path: Path) -> None:
    theirs.save_to_preset(str(tmp_path / "theirs"))
    opened, expected = load_checkpoint(tmp_path / "theirs"), from_keras_hub(theirs)
    assert type(opened) is type(expected)
    assert opened.get_config() == expected.get_config()
    contracts.assert_same_weights(opened, expected)
    save_checkpoint(opened, tmp_path / "back", format="keras_hub")
    parent = getattr(keras_hub.models, _ending(type(theirs)))
    again = parent.from_preset(str(tmp_path / "back"), preprocessor=None)
    _same(again, theirs)


def test_our_folder_has_the_head_too(theirs: Any, tmp_path: Path) -> None:
    """A folder of this package keeps the activation, epsilon and dropout of a KerasHub head."""
    contracts.check_format(
        ours := _task(from_keras_hub(theirs)), contracts.inputs_of(ours), tmp_path
    )


def _task(model: Any) -> Task:
    assert isinstance(model, Task)
    return model


@pytest.mark.parametrize("backbone", ["BertBackbone", "DistilBertBackbone", "AlbertBackbone"])
def test_their_epsilon_is_not_that_of_the_backbone(backbone: str, keras_hub: Any) -> None:
    """The head of KerasHub keeps its own epsilon, 1e-5.

    Small weights give small variances, in which a wrong epsilon would show.
    """
    theirs = _theirs(keras_hub, backbone, "MaskedLM")
    for name in ("kernel", "bias"):
        variable = getattr(theirs.masked_lm_head._intermediate_dense, name)
        variable.assign(variable * 0.01)
    ours = from_keras_hub(theirs)
    assert ours.options["layer_norm_epsilon"] == 1e-5
    _same_outputs(ours, theirs)


@pytest.mark.parametrize(
    ("backbone", "rates"), [("RobertaBackbone", [0.25, 0.25]), ("DistilBertBackbone", [0.0, 0.25])]
)
def test_dropout_is_where_theirs_is(backbone: str, rates: list[float], keras_hub: Any) -> None:
    """The dropout rates of a classifier are those of KerasHub's head."""
    task = from_keras_hub(_theirs(keras_hub, backbone, "TextClassifier"))
    assert isinstance(task, SequenceClassifier)
    assert [task.head.hidden_dropout.rate, task.head.dropout.rate] == rates


@pytest.mark.parametrize("options", [{"pooling_mode": "mean"}, {"pooling_mode": "cls"}], ids=str)
def test_other_vectors(options: dict[str, Any], keras_hub: Any) -> None:
    """Each pooling of KerasHub's TextEmbedder is kept in both directions."""
    theirs = _theirs(keras_hub, "BertBackbone", "TextEmbedder", normalize=True, **options)
    ours = from_keras_hub(theirs)
    _same_outputs(ours, theirs)
    _same(to_keras_hub(ours), theirs)


def test_names_of_classes_travel(keras_hub: Any, tmp_path: Path) -> None:
    """Labels and options are kept in metadata.json, which KerasHub writes but does not read."""
    options: Any = {"labels": ["bad", "fair", "good"], "problem": "multi_label", "dropout": 0.5}
    task = SequenceClassifier(BertEncoder(_TANH), 3, **options)
    save_checkpoint(task, tmp_path, format="keras_hub")
    opened = _task(load_checkpoint(tmp_path))
    assert {name: opened.options[name] for name in options} == options
    theirs = keras_hub.models.TextClassifier.from_preset(str(tmp_path), preprocessor=None)
    _same_outputs(opened, theirs)
    save_checkpoint(opened.encoder, tmp_path, format="keras_hub")
    # The head of the first checkpoint must be gone.
    assert isinstance(load_checkpoint(tmp_path), BertEncoder)
    made = from_keras_hub(theirs, labels=["a", "b", "c"], dtype="mixed_bfloat16")
    assert made.options["labels"] == ["a", "b", "c"]
    assert made.dtype_policy.name == "mixed_bfloat16"


@pytest.mark.parametrize(
    ("family", "ending"),
    [
        ("bert", "ForSequenceClassification"),
        ("roberta", "ForSequenceClassification"),
        ("roberta", "ForMaskedLM"),
        ("distilbert", "ForSequenceClassification"),
        ("albert", "ForSequenceClassification"),
    ],
)
def test_hugging_faces_tasks_become_theirs(
    family: str, ending: str, transformers: Any, keras_hub: Any, tmp_path: Path
) -> None:
    changes = {"hidden_act": "gelu_new"} if family in ("bert", "albert") else {}
    model = reference.hugging_face_model(transformers, ending, family, **changes)
    model.save_pretrained(tmp_path)
    task = load_checkpoint(tmp_path)
    _same_outputs(task, to_keras_hub(task))


@pytest.mark.parametrize(
    ("backbone", "ending", "name"),
    [
        ("RobertaBackbone", "MaskedLM", "RobertaForMaskedLM"),
        ("BertBackbone", "TextClassifier", "BertForSequenceClassification"),
        # Hugging Face's head has the activation and epsilon of the encoder.
        ("BertBackbone", "MaskedLM", None),
    ],
)
def test_it_is_written_for_hugging_face(
    backbone: str, ending: str, name: str | None, keras_hub: Any, transformers: Any, tmp_path: Path
) -> None:
    task = _task(from_keras_hub(_theirs(keras_hub, backbone, ending)))
    task.save_to_preset(tmp_path)
    x = contracts.inputs_of(task)
    if name:
        model = getattr(transformers, name).from_pretrained(tmp_path, attn_implementation="eager")
        reference.same_as_hugging_face(task, model.eval(), x)
    else:
        assert '"model_type": "bert_keras"' in (tmp_path / "config.json").read_text()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MaskedLM(BertEncoder(_TANH)), r"BertMaskedLM always has .*'gelu'.* 1e-12"),
        (lambda: SequenceClassifier(BertEncoder(_TANH), 2, hidden_activation="tanh"), "'tanh'"),
        (lambda: TokenClassifier(BertEncoder(_TANH), 2), "has no TokenClassifier of the family b"),
        (
            lambda: MaskedLM(BertEncoder(_TANH.replace(family="electra", embedding_size=4))),
            r"has no MaskedLM of the family electra\. Convert its encoder alone, `task\.encoder`",
        ),
        (lambda: SequenceClassifier(BertEncoder(TINY), 2), "BertBackbone cannot have these"),
        (
            lambda: SequenceClassifier(
                BertEncoder(TINY.replace(family="roberta", pooler=False)),
                2,
                hidden_activation="tanh",
                representation="mix",
            ),
            r"reads the last layer alone\. Received: representation='mix'",
        ),
    ],
)
def test_what_they_have_not(make: Any, message: str, keras_hub: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        save_checkpoint(make(), tmp_path / "folder", format="keras_hub")
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"activation": "softmax"}, r"RobertaTextClassifier: not supported: activation='softmax'"),
        ({"hidden_dim": 6}, "RobertaTextClassifier: not supported: hidden_dim=6"),
    ],
)
def test_what_we_have_not(changes: dict[str, Any], message: str, keras_hub: Any) -> None:
    """A KerasHub task that this package lacks is refused with a reason."""
    theirs = _theirs(keras_hub, "RobertaBackbone", "TextClassifier", **changes)
    with pytest.raises(UsageError, match=message):
        from_keras_hub(theirs)


def test_no_class_of_theirs_is_left_out(keras_hub: Any) -> None:
    for name, each in vars(keras_hub.models).items():
        backbone = getattr(getattr(each, "backbone_cls", None), "__name__", None)
        if backbone in BACKBONES and issubclass(each, keras_hub.models.Task):
            assert module.find_task(name) == (backbone, BACKBONES[backbone].heads[_ending(each)])


def _ending(task_class: type) -> str:
    return task_class.__bases__[0].__name__


def test_find() -> None:
    """A class name of KerasHub, also an older one, gives the backbone and the head."""
    backbone, head = module.find_task("BertClassifier") or ("", None)
    assert backbone == "BertBackbone"
    assert head is BACKBONES["BertBackbone"].heads["TextClassifier"]
    assert module.find_task("BertBackbone") is module.find_task(None) is None
    assert {head.class_name for row in BACKBONES.values() for head in row.heads.values()} == {
        *("MaskedLM", "SentenceEncoder", "SequenceClassifier")
    }
