"""The model card of a checkpoint folder: what it says, and that a person's card is never lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings

from bert_keras import (
    BertEncoder,
    MaskedLM,
    Predictor,
    SequenceClassifier,
    TokenClassifier,
    Tokenizer,
    save_checkpoint,
)
from bert_keras.checkpoints import model_card
from bert_keras.checkpoints.manifest import CONFIG, MANIFEST, WEIGHTS
from bert_keras.checkpoints.model_card import CARD, ModelCard
from bert_keras.escaping import printable
from bert_keras.inference.base import PredictorConfig
from tests.contracts import TINY
from tests.names import NAMES, as_line, shown_by_markdown

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
FACTS = {
    "title": "sst2",
    "license": "apache-2.0",
    "language": "en",
    "base_model": "organisation/base",
    "datasets": ["organisation/data"],
    "tags": ("mine",),
    "metrics": {"accuracy": 0.875, "f1": None, "loss": float("nan")},
    "measured_on": "8 examples of dev.tsv",
    "training": {"epochs": "3"},
    "seeds": {"accuracy": "0.8600 ± 0.0100"},
}


@pytest.fixture(scope="module")
def task() -> SequenceClassifier:
    return SequenceClassifier(
        BertEncoder(TINY), 2, labels=["bad", "good"], tokenizer=Tokenizer(WORDS)
    )


def front_of(text: str) -> dict[str, Any]:
    """Return the front matter of a card."""
    start, front, _ = text.split("---\n", 2)
    assert not start
    return yaml.safe_load(front)


def card_of(folder: Path) -> str:
    return (folder / CARD).read_text(encoding="utf-8")


def test_the_facts_of_the_model(task: SequenceClassifier, tmp_path: Path) -> None:
    task.save_to_preset(tmp_path)
    text = card_of(tmp_path)
    tags = ["bert_keras", "keras", "bert", "text-classification", "transformers"]
    assert front_of(text) == {
        "library_name": "keras",
        "tags": tags,
        "pipeline_tag": "text-classification",
    }
    for part in (
        "\n# Text classification with BERT\n",
        f"A SequenceClassifier with {task.count_params():,} parameters",
        "at most 12 tokens",
        "| 1 | good |",
        "This card has no results.",
    ):
        assert part in text


def test_a_task_that_reads_windows_ignores_no_text() -> None:
    tagger = TokenClassifier(BertEncoder(TINY), labels=["O", "B-PER", "I-PER"])
    text = model_card.text_of(tagger, None, PredictorConfig(), ModelCard.of({}))
    assert "more than 12 tokens is read in overlapping windows" in text
    assert "ignores the rest" not in text


def test_the_facts_of_the_caller(task: SequenceClassifier, tmp_path: Path) -> None:
    task.save_to_preset(tmp_path, card=FACTS)
    text = card_of(tmp_path)
    front = front_of(text)
    assert (front["license"], front["language"]) == ("apache-2.0", ["en"])
    assert (front["base_model"], front["datasets"]) == (
        ["organisation/base"],
        ["organisation/data"],
    )
    assert front["tags"][-1] == "mine"
    assert front["metrics"] == ["accuracy"]
    (result,) = front["model-index"][0]["results"]
    assert result["metrics"] == [{"type": "accuracy", "name": "accuracy", "value": 0.875}]
    assert result["dataset"]["name"] == "8 examples of dev.tsv"
    for part in ("\n# sst2\n", "| epochs | 3 |", "| accuracy | 0.8750 | 0.8600 ± 0.0100 |"):
        assert part in text


def test_the_library_of_the_hub_reads_it(task: SequenceClassifier) -> None:
    hub = pytest.importorskip("huggingface_hub")
    text = model_card.text_of(task, task.tokenizer, PredictorConfig(), ModelCard.of(FACTS))
    card = hub.ModelCard(text)
    assert card.data.library_name == "keras"
    assert card.data.eval_results[0].metric_value == 0.875
    assert card.data.license == "apache-2.0"


def test_every_way_of_saving_writes_the_facts(task: SequenceClassifier, tmp_path: Path) -> None:
    saved = (
        lambda folder, **card: task.save_to_preset(folder, **card),
        lambda folder, **card: task.encoder.save_to_preset(folder, **card),
        lambda folder, **card: Predictor(task, max_length=9).save_to_preset(folder, **card),
        lambda folder, **card: save_checkpoint(task, folder, **card),
    )
    for number, save in enumerate(saved):
        save(tmp_path / str(number), card={"license": "mit"})
        assert front_of(card_of(tmp_path / str(number)))["license"] == "mit"
        with pytest.raises(ValueError, match=r"`card` takes title, license, .*Received: 'licence'"):
            save(tmp_path / "wrong", card={"licence": "mit"})
    assert "at most 9 tokens" in card_of(tmp_path / "2")
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    ("card", "kind"),
    [
        ({"license": 3}, "a str"),
        ({"language": [3]}, "a str or a list of str"),
        ({"metrics": "good"}, "a dictionary"),
    ],
)
def test_wrong_facts(card: dict[str, Any], kind: str) -> None:
    with pytest.raises(ValueError, match=rf"must be {kind}\. Received: "):
        ModelCard.of(card)


def test_other_files_and_formats_are_as_without_a_card(
    task: SequenceClassifier, tmp_path: Path
) -> None:
    task.save_to_preset(tmp_path / "one")
    task.save_to_preset(tmp_path / "two", card=FACTS)
    for name in (CONFIG, MANIFEST, WEIGHTS):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    google = MaskedLM(BertEncoder(TINY.replace(activation="gelu_tanh")))
    save_checkpoint(google, tmp_path / "google", "google_tf1")
    assert not (tmp_path / "google" / CARD).exists()


# === Cards that a person wrote ===


def test_an_unchanged_card_is_renewed(task: SequenceClassifier, tmp_path: Path) -> None:
    task.save_to_preset(tmp_path, card={"title": "first"})
    task.save_to_preset(tmp_path, card={"title": "second"})
    assert "# second" in card_of(tmp_path)
    assert model_card.is_own(tmp_path / CARD)


@pytest.mark.parametrize("change", ["all", "append", "edit", "delete", "line ends", "no text"])
def test_a_card_of_a_person_stays(task: SequenceClassifier, tmp_path: Path, change: str) -> None:
    task.save_to_preset(tmp_path, card={"title": "first"})
    path = tmp_path / CARD
    content = path.read_bytes()
    content = {
        "all": b"# Mine\n",
        "append": content + b"More.\n",
        "edit": content.replace(b"# first", b"# mine"),
        "delete": content.replace(b"## Limits", b""),
        "line ends": content.replace(b"\n", b"\r\n"),
        "no text": b"\xff\xfe",
    }[change]
    path.write_bytes(content)
    task.save_to_preset(tmp_path, card={"title": "second"})
    assert path.read_bytes() == content


def test_an_empty_card_or_a_folder_of_its_name_stays(
    task: SequenceClassifier, tmp_path: Path
) -> None:
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / CARD).touch()
    (tmp_path / "folder" / CARD).mkdir(parents=True)
    for name in ("file", "folder"):
        task.save_to_preset(tmp_path / name)
    assert not (tmp_path / "file" / CARD).read_bytes()
    assert not list((tmp_path / "folder" / CARD).iterdir())


def test_a_card_for_a_repository(task: SequenceClassifier, tmp_path: Path) -> None:
    """The code names the repository, a label that looks like code stays, and the card is ours."""
    labels = ['bk.load_checkpoint(".")', "good"]
    other = SequenceClassifier(BertEncoder(TINY), 2, labels=labels, tokenizer=task.tokenizer)
    other.save_to_preset(tmp_path)
    text = model_card.for_repository(card_of(tmp_path), "someone/model")
    assert 'bk.Predictor.from_preset("hf://someone/model")' in text
    assert 'AutoTokenizer.from_pretrained("someone/model")' in text
    assert '| 0 | bk.load_checkpoint(".") |' in text
    assert model_card.is_own_text(text)


# === Text from outside ===


@settings(max_examples=30, deadline=None)
@given(name=NAMES)
@example("\x85")
@example("a\u2028b: c # d")
@example("- no\n---\nyes: 'x\ufeff\x07")
def test_any_name_is_shown_as_it_is(task: SequenceClassifier, name: str) -> None:
    named = SequenceClassifier.from_config(task.get_config())
    named.options["labels"] = [name, "good"]
    facts = {"title": name, "license": name, "metrics": {name: 0.5}, "training": {name: name}}
    text = model_card.text_of(named, task.tokenizer, PredictorConfig(), ModelCard.of(facts))
    text = text.encode().decode()
    assert model_card.is_own_text(text)
    front, body = text.removeprefix("---\n").split("\n---\n", 1)
    values = yaml.safe_load(front)
    assert values.get("license", "") == " ".join(printable(name).split())
    lines = [line for line in body.splitlines() if line.startswith(("#", "|")) or not line]
    shown = list(shown_by_markdown("\n".join(lines)))
    assert shown.count(as_line(name)) >= 4 or not as_line(name)


def test_nothing_of_the_machine_is_in_a_card(
    task: SequenceClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "canary7"
    folder = tmp_path / canary
    for name in ("HOME", "USER", "LOGNAME", "HF_TOKEN", "HOSTNAME"):
        monkeypatch.setenv(name, str(folder))
    folder.mkdir()
    monkeypatch.chdir(folder)
    task.save_to_preset(folder / "model", card=FACTS)
    text = card_of(folder / "model")
    assert canary not in text
    for value in (str(Path.cwd()), os.uname().nodename):
        assert value not in text
