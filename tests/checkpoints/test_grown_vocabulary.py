"""Vocabularies that have grown, in folders of transformers and of this package, both ways."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from bert_keras import BertEncoder, MaskedLM, SequenceClassifier, Tokenizer, features
from tests.contracts import TINY, as_trained, assert_close, batch, numpy, weights

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

WORDS = [*"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqr")]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
NEW = ["covid", "[E1]"]
SIZE = len(VOCABULARY)
TEXTS = ["covid a b", "a COVIDs [E1]b [MASK]"]
TABLE = "embeddings/token/embeddings"
SIZES = {
    "vocab_size": SIZE,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {"type_vocab_size": 1},
    "xlm-roberta": {"type_vocab_size": 1},
    "albert": {"embedding_size": 4},
    "electra": {"embedding_size": 4},
    "distilbert": {"hidden_dim": 16},
}
_SLOW = pytest.mark.slow
ALL = [name if name == "bert" else pytest.param(name, marks=_SLOW) for name in FAMILIES]


def _model(family: str) -> Any:
    """Return a masked language model of transformers, with random weights and a trained bias."""
    torch.manual_seed(0)
    sizes = SIZES | FAMILIES[family]
    if family == "distilbert":
        del sizes["intermediate_size"]  # has another name there
    config = transformers.AutoConfig.for_model(family, **sizes)
    model = transformers.AutoModelForMaskedLM.from_config(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return model


def _theirs(model: Any, x: dict[str, np.ndarray]) -> np.ndarray:
    names = {"input_ids": features.TOKEN_IDS, "attention_mask": features.PADDING_MASK}
    with torch.no_grad():
        inputs = {name: torch.tensor(x[key]).long() for name, key in names.items()}
        return model(**inputs).logits.numpy()


def _ours(task: MaskedLM, x: dict[str, np.ndarray]) -> np.ndarray:
    """Return the logits of all tokens."""
    rows, length = x[features.TOKEN_IDS].shape
    positions = np.tile(np.arange(length, dtype="int32"), (rows, 1))
    inputs = {**x, features.MASK_POSITIONS: positions}
    return numpy(task({tensor.name: inputs[tensor.name] for tensor in task.inputs}))["mlm"]


def _inputs(size: int) -> dict[str, np.ndarray]:
    x = batch(TINY.replace(vocab_size=size, num_segments=1))
    x[features.SEGMENT_IDS] = np.zeros_like(x[features.TOKEN_IDS])
    x[features.TOKEN_IDS][0, :2] = size - 2, size - 1
    return x


@pytest.mark.parametrize("family", ALL)
def test_tables_that_transformers_resized_and_ours(family: str, tmp_path: Path) -> None:
    model = _model(family)
    model.save_pretrained(tmp_path / "before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.resize_token_embeddings(SIZE + 2)
    model.save_pretrained(tmp_path / "theirs")
    x = _inputs(SIZE + 2)
    opened = MaskedLM.from_preset(tmp_path / "theirs")
    is_there = np.s_[: x[features.PADDING_MASK].shape[0]]
    expected, real = _theirs(model, x), x[features.PADDING_MASK][is_there] == 1
    assert_close(_ours(opened, x)[real], expected[real], 2e-5)
    # Ours, from the checkpoint as it was before; with their new rows, the outputs are equal.
    grown = MaskedLM.from_preset(tmp_path / "before", vocab_size=SIZE + 2)
    for weight in grown.weights:
        if weight.path in (TABLE, "mlm/bias"):
            rows = numpy(weight)
            np.testing.assert_allclose(rows[SIZE:], np.stack([rows[:SIZE].mean(0)] * 2), atol=1e-6)
            np.testing.assert_array_equal(rows[:SIZE], weights(opened)[weight.path][:SIZE])
            weight.assign(weights(opened)[weight.path])
    assert_close(_ours(grown, x)[real], expected[real], 2e-5)
    grown.save_to_preset(tmp_path / "ours")
    again = type(model).from_pretrained(tmp_path / "ours").eval()
    assert_close(_theirs(again, x)[real], expected[real], 2e-5)


def test_the_whole_folder_both_ways(tmp_path: Path) -> None:
    """Tokens, rows and settings of one folder are those that the other library wrote."""
    Tokenizer(VOCABULARY).save_to_preset(tmp_path)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    theirs.add_tokens(NEW[:1])
    theirs.add_tokens(NEW[1:], special_tokens=True)
    model = _model("bert")
    model.resize_token_embeddings(len(theirs), mean_resizing=False)
    model.save_pretrained(tmp_path / "theirs")
    theirs.save_pretrained(tmp_path / "theirs")
    task = MaskedLM.from_preset(tmp_path / "theirs")
    tokenizer = Tokenizer(VOCABULARY).add_tokens(NEW[:1]).add_tokens(NEW[1:], special=True)
    assert task.tokenizer == tokenizer
    assert task.encoder.config.vocab_size == len(theirs) == SIZE + 2
    ids = [theirs(text)["input_ids"] for text in TEXTS]
    assert [tokenizer.encode(text).ids for text in TEXTS] == ids
    inputs = theirs(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        expected = model.bert(**inputs).last_hidden_state.numpy()
    found = numpy(task.encoder(tokenizer(TEXTS[:1])))[features.SEQUENCE_OUTPUT]
    assert_close(found, expected, 2e-5)
    task.save_to_preset(tmp_path / "ours")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert [again(text)["input_ids"] for text in TEXTS] == ids
    encoder = transformers.AutoModel.from_pretrained(tmp_path / "ours").eval()
    with torch.no_grad():
        assert_close(encoder(**inputs).last_hidden_state.numpy(), expected, 2e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folder")
    config = TINY.replace(vocab_size=SIZE, max_positions=16)
    task = SequenceClassifier(BertEncoder(config), 2, tokenizer=Tokenizer(VOCABULARY))
    as_trained(task).save_to_preset(path)
    return path


def test_opened_with_another_size(folder: Path) -> None:
    tokenizer = Tokenizer.from_preset(folder).add_tokens(["covid"])
    for padded in (SIZE + 1, SIZE + 30):
        task = SequenceClassifier.from_preset(folder, vocab_size=padded, tokenizer=tokenizer)
        assert task.encoder.config.vocab_size == padded
        assert task.tokenizer == tokenizer
    encoder = BertEncoder.from_preset(folder, vocab_size=SIZE + 1)
    assert_close(weights(encoder)[TABLE], weights(task.encoder)[TABLE][: SIZE + 1])
    assert SequenceClassifier.from_preset(folder, vocab_size=SIZE + 1).tokenizer is not None


@pytest.mark.slow
def test_a_preset_without_weights() -> None:
    options: dict[str, Any] = {"load_weights": False, "vocab_size": 77}
    task = SequenceClassifier.from_preset("bert_tiny_uncased", num_classes=2, **options)
    encoder = BertEncoder.from_preset("bert_tiny_uncased", **options)
    assert task.encoder.config.vocab_size == encoder.config.vocab_size == 77


def test_too_few_rows_are_refused_at_once(folder: Path) -> None:
    tokenizer = Tokenizer.from_preset(folder).add_tokens(["covid"])
    with pytest.raises(ValueError, match=r"resize_vocabulary\(50\)"):
        SequenceClassifier.from_preset(folder, tokenizer=tokenizer)
    with pytest.raises(ValueError, match=f"{SIZE} entries, .* {SIZE - 1} rows"):
        SequenceClassifier.from_preset(folder, vocab_size=SIZE - 1)


def test_a_trained_token_is_kept(folder: Path, tmp_path: Path) -> None:
    """Train with a new token, save, open: the same answers."""
    tokenizer = Tokenizer.from_preset(folder).add_tokens(["covid"])
    task = SequenceClassifier.from_preset(
        folder, vocab_size=tokenizer.vocab_size, tokenizer=tokenizer
    )
    task.compile("sgd", **task.loss_and_metrics())
    task.fit(["covid a", "b c"], [0, 1], batch_size=2, verbose=0)
    texts = ["covid b", "Covid", "a"]
    expected = task.predict_scores(texts)
    task.save_to_preset(tmp_path)
    task.save(tmp_path / "task.keras")
    opened: Any = keras.saving.load_model(tmp_path / "task.keras")
    for other in (SequenceClassifier.from_preset(tmp_path), opened):
        assert other.tokenizer == tokenizer
        assert_close(other.predict_scores(texts), expected, 1e-6)
