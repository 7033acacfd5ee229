"""The command line program `bert-keras`."""

from __future__ import annotations

import gzip
import importlib
import inspect
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from bert_keras import (
    BertEncoder,
    MaskedLM,
    Predictor,
    QuestionAnswerer,
    SentenceEncoder,
    SequenceClassifier,
    Tokenizer,
    cli,
    load_checkpoint,
)
from bert_keras.checkpoints.manifest import CONFIG, WEIGHTS
from bert_keras.cli import PROGRAMS
from bert_keras.errors import ArtifactError, DataError, ResourceError, UsageError
from tests import contracts, hub
from tests.contracts import TINY
from tests.tokenizers import learners

_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(45))]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "source"
    config = TINY.replace(activation="gelu_tanh", pooler=False)
    contracts.as_trained(MaskedLM(BertEncoder(config))).save_to_preset(folder)
    Tokenizer(_WORDS).save_to_preset(folder)
    return folder


def test_convert_there_and_back(call, source: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    done = call("convert", source, tmp_path / "tf1", "--format", "google_tf1")
    assert done.code == 0, done.err
    assert "a MaskedLM of" in done.out
    assert (tmp_path / "tf1" / "vocab.txt").is_file()
    assert call("convert", tmp_path / "tf1", tmp_path / "back").code == 0
    assert call("verify", source, tmp_path / "back", "--tolerance", 0).code == 0
    contracts.assert_same_weights(load_checkpoint(tmp_path / "back"), load_checkpoint(source))


def test_convert_of_an_exported_pair(call, source: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    from tests.checkpoints.test_tf_hub_export import write

    tokenizer = Tokenizer(hub.WORDS, lowercase=False)
    write(load_checkpoint(source), tmp_path / "module" / "encoder", tokenizer)
    done = call("convert", tmp_path / "module", tmp_path / "new")
    assert done.code == 0, done.err
    assert Tokenizer.from_preset(tmp_path / "new") == tokenizer
    assert call("verify", source, tmp_path / "new", "--tolerance", 0).code == 0


def test_a_tokenizer_whose_family_the_model_tells(call, tmp_path: Path) -> None:
    """The new folder gives the same ids, although its config.json names no tokenizer class."""
    pytest.importorskip("sentencepiece")
    model = BertEncoder(TINY.replace(family="roberta", pooler=False, vocab_size=300))
    model.save_to_preset(tmp_path / "theirs")
    learners.sentencepiece(tmp_path / "theirs", "sentencepiece.bpe.model")
    config = tmp_path / "theirs" / CONFIG
    values = json.loads(config.read_bytes())
    config.write_text(json.dumps(values | {"tokenizer_class": "CamembertTokenizer"}))
    done = call("convert", tmp_path / "theirs", tmp_path / "new")
    assert done.code == 0, done.err
    assert "sentencepiece.bpe.model, tokenizer.json" in done.out
    tokenizer = Tokenizer.from_preset(tmp_path / "theirs")
    assert tokenizer.vocabulary[0] == "<s>NOTUSED"
    assert Tokenizer.from_preset(tmp_path / "new") == tokenizer


def test_a_name_of_a_preset(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preset name opens the published checkpoint, here from an offline cache of the hub."""
    hub.offline_cache(tmp_path / "cache", monkeypatch)
    done = call("convert", hub.NAME, tmp_path / "mine")
    assert done.code == 0, done.err
    contracts.assert_same_weights(load_checkpoint(tmp_path / "mine"), hub.published())
    assert Tokenizer.from_preset(tmp_path / "mine") == Tokenizer(hub.WORDS)
    assert call("verify", hub.NAME, tmp_path / "mine").code == 0
    missing = call("inspect", "bert_base_cased")
    assert missing.code == ArtifactError.exit_code
    assert "which stands for hf://google-bert/bert-base-cased, is not in the cache" in missing.err


def test_a_tokenizer_in_another_form_is_written(call, source: Path, tmp_path: Path) -> None:
    """A tokenizer in KerasHub's assets is written as files that other programs read."""
    keras_hub = pytest.importorskip("keras_hub", reason="needs KerasHub")
    assert call("convert", source, tmp_path / "hub", "--format", "keras_hub", "--encoder").code == 0
    assert [path.name for path in (tmp_path / "hub").glob("*oken*")] == []
    keras_hub.models.BertTokenizer(_WORDS, lowercase=True).save_to_preset(str(tmp_path / "hub"))
    done = call("convert", tmp_path / "hub", tmp_path / "back")
    assert "Tokenizer: vocab.txt, tokenizer.json" in done.out
    assert Tokenizer.from_preset(tmp_path / "back") == Tokenizer(_WORDS)


def test_a_variant(call, source: Path, tmp_path: Path) -> None:
    """Each command opens `model.fp16.safetensors` beside the plain file, and predicts with it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    tensors = load_file(source / WEIGHTS)
    (folder / CONFIG).write_bytes((source / CONFIG).read_bytes())
    Tokenizer(_WORDS).save_to_preset(folder)
    save_file(tensors, folder / WEIGHTS)
    half = {name: values.astype("float16") for name, values in tensors.items()}
    save_file(half, folder / "model.fp16.safetensors")
    assert call("inspect", folder, "--variant", "fp16").code == 0
    assert call("verify", folder, source, "--tolerance", 0).code == 0
    assert call("verify", folder, source, "--tolerance", 0, "--variant", "fp16").code == 1
    assert call("convert", folder, tmp_path / "new", "--variant", "fp16").code == 0
    opened = load_checkpoint(folder, variant="fp16")
    contracts.assert_same_weights(load_checkpoint(tmp_path / "new"), opened)
    assert call("predict", folder, "w1 [MASK] w2", "variant=fp16").code == 0
    for command in (("inspect", folder, "--variant"), ("predict", folder, "w1 [MASK]")):
        last = "int8" if command[0] == "inspect" else "variant=int8"
        done = call(*command, last)
        assert done.code == ArtifactError.exit_code
        assert "no weights of the variant 'int8'" in done.err
    done = call("inspect", folder, "--averages")
    assert done.code == UsageError.exit_code
    assert "averages=True opens the moving averages" in done.err


def test_the_encoder_alone(call, source: Path, tmp_path: Path) -> None:
    assert call("convert", source, tmp_path / "encoder", "--encoder").code == 0
    assert isinstance(load_checkpoint(tmp_path / "encoder"), BertEncoder)


def test_inspect(call, source: Path) -> None:
    done = call("inspect", source)
    assert done.code == 0
    assert "cls.predictions.bias" in done.out
    assert "gelu_tanh" in done.out


def test_verify_finds_a_difference(call, source: Path, tmp_path: Path) -> None:
    other = load_checkpoint(source)
    (bias,) = (w for w in other.weights if w.path == "mlm/bias")
    bias.assign(bias + 0.5)
    other.save_to_preset(tmp_path / "other")
    done = call("verify", source, tmp_path / "other")
    assert done.code == 1
    assert "They differ by up to 0.5" in done.out
    assert "mlm/bias" in done.out
    assert "texts" in done.out
    assert call("verify", source, tmp_path / "other", "--tolerance", "0.6").code == 0


def test_refused(call, source: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    done = call("convert", source, tmp_path / "taken")
    assert (done.code, done.err[:7]) == (2, "error: ")
    assert "exists already" in done.err
    done = call("convert", source, tmp_path / "x", "--format", "pickle")
    assert done.code == 2
    assert "hugging_face, google_tf1, keras_hub" in done.err
    for command in (("inspect", tmp_path / "none"), ("convert", tmp_path / "none", tmp_path / "x")):
        done = call(*command)
        assert done.code == 4
        assert "no such folder" in done.err
    assert not (tmp_path / "x").exists()


def test_a_saved_model_needs_trust(call, tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    tf.saved_model.save(tf.Module(), str(tmp_path / "hub"))
    for command in (("inspect",), ("verify", tmp_path), ("convert", tmp_path / "new")):
        done = call(command[0], tmp_path / "hub", *command[1:])
        assert done.code == 4
        assert "a SavedModel, which is a program" in done.err
        done = call(command[0], tmp_path / "hub", *command[1:], "--trust")
        assert done.code == 4
        assert "has no variables" in done.err


def test_help(call) -> None:
    done = call("--help")
    assert done.code == 0
    for command in ("convert", "inspect", "verify"):
        assert command in done.out


def test_the_lines_of_a_paragraph_of_help_flow(call) -> None:
    """Typer would keep the lines of the docstring, which are longer than a terminal."""
    assert call("serve", "--help").code == 0
    helps = [command.help for command in cli.app.registered_commands]
    assert len(helps) > 10
    for text in helps:
        assert text
        assert "\n" not in text.replace("\n\n", "")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "classifier"
    task = SequenceClassifier(BertEncoder(TINY), 2, labels=["no", "yes"])
    contracts.as_trained(task).save_to_preset(folder)
    Tokenizer(_WORDS).save_to_preset(folder)
    return folder


def test_predict_a_file(call, classifier: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text('w1 w2\nw3\n{"text": "w1 w2"}\n', encoding="utf-8")
    done = call("predict", classifier, path)
    assert done.code == 0, done.err
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert answers[0]["label"] == answers[2]["label"]
    assert answers[0]["score"] == pytest.approx(answers[2]["score"], abs=1e-5)
    task = load_checkpoint(classifier)
    expected = Predictor(task, Tokenizer(_WORDS))(["w1 w2", "w3"])
    for answer, label in zip(answers, expected, strict=False):
        assert answer["label"] == label.label
        assert answer["score"] == pytest.approx(label.score, abs=1e-6)


@contracts.MAY_CUT
def test_predict_as_the_folder_says(call, classifier: Path, tmp_path: Path) -> None:
    """`predict` uses the folder's length and options, unless the command line overrides them."""
    folder = tmp_path / "model"
    task, tokenizer = load_checkpoint(classifier), Tokenizer(_WORDS)
    Predictor(task, tokenizer, max_length=4, options={"top_k": 2}).save_to_preset(folder)
    path = tmp_path / "texts.txt"
    path.write_text("{w1} w2 w3 w4 w5\n", encoding="utf-8")
    for words, length in (((), 4), (("max_length=8",), 8)):
        done = call("predict", folder, path, *words)
        assert done.code == 0, done.err
        expected = Predictor(task, tokenizer, max_length=length).predict_scores(
            ["{w1} w2 w3 w4 w5"]
        )
        scores = {each["label"]: each["score"] for each in json.loads(done.out)}
        assert [scores["no"], scores["yes"]] == pytest.approx(expected[0].tolist(), abs=1e-6)
    assert call("convert", folder, tmp_path / "again").code == 0
    again = (tmp_path / "again" / "predictor.json").read_bytes()
    assert again == (folder / "predictor.json").read_bytes()
    (folder / "predictor.json").write_text('{"options": {"max_pieces": 8}}')
    done = call("predict", folder, path)
    assert done.code == ArtifactError.exit_code
    assert "`options` must be of `predict_labels`" in done.err


def test_predict_refuses_a_folder(call, classifier: Path, tmp_path: Path) -> None:
    done = call("predict", classifier, tmp_path)
    assert done.code == DataError.exit_code
    assert f"{tmp_path}: cannot be read: " in done.err


def test_a_threshold_is_of_questions(call, classifier: Path, tmp_path: Path) -> None:
    folder = tmp_path / "answers"
    contracts.as_trained(QuestionAnswerer(BertEncoder(TINY))).save_to_preset(folder)
    Tokenizer(_WORDS).save_to_preset(folder)
    path = tmp_path / "questions.jsonl"
    path.write_text('{"question": "w1", "context": "w2 w3"}\n', encoding="utf-8")

    answers = []
    for threshold in ("1e9", "-1e9"):
        done = call("predict", folder, path, f"null_threshold={threshold}")
        assert done.code == 0, done.err
        answers.append(json.loads(done.out)["text"])
    assert answers[0] in "w2 w3"
    assert answers == [answers[0] or None, ""]
    done = call("predict", classifier, path, "null_threshold=0")
    assert done.code == UsageError.exit_code
    assert "null_threshold= is for question answering" in done.err


def test_a_prompt_is_of_vectors(call, classifier: Path, tmp_path: Path) -> None:
    folder, path = tmp_path / "vectors", tmp_path / "texts.txt"
    task = SentenceEncoder(BertEncoder(TINY), prompts={"query": "w7 w8 "})
    contracts.as_trained(task).save_to_preset(folder)
    Tokenizer(_WORDS).save_to_preset(folder)
    path.write_text("w1 w2\n", encoding="utf-8")
    for options, text in (((), "w1 w2"), (("prompt_name=query",), "w7 w8 w1 w2")):
        done = call("predict", folder, path, *options)
        assert done.code == 0, done.err
        expected = Predictor.from_preset(folder).encode([text])[0]
        np.testing.assert_allclose(json.loads(done.out), expected, atol=1e-6)
    for model, message in ((classifier, "which has none"), (folder, "must be one of query")):
        done = call("predict", model, path, "prompt_name=other")
        assert done.code == UsageError.exit_code
        assert message in done.err


def test_a_tokenizer_whose_case_another_file_tells_is_written_anew(call, tmp_path: Path) -> None:
    source, target = tmp_path / "theirs", tmp_path / "ours"
    contracts.as_trained(SentenceEncoder(BertEncoder(TINY))).save_to_preset(source)
    Tokenizer([*_WORDS[:-1], "W1"], lowercase=False).save_to_preset(source)
    (source / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    assert call("convert", source, target).code == 0
    expected, found = map(Tokenizer.from_preset, (source, target))
    assert expected.encode("W1 w1").ids == found.encode("W1 w1").ids
    assert found.lowercase


def test_predict_standard_input(call, classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = b'\xef\xbb\xbf{"text": "w1", "pair": "w2"}\n'  # the UTF-8 byte order mark
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    done = call("predict", classifier)
    assert done.code == 0, done.err
    expected = Predictor(load_checkpoint(classifier), Tokenizer(_WORDS))(["w1"], ["w2"])
    assert json.loads(done.out)["score"] == pytest.approx(expected[0].score, abs=1e-6)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"w1\n\xff\n")))
    done = call("predict", classifier)
    assert done.code == DataError.exit_code
    assert "standard input: not UTF-8" in done.err


def test_predict_a_compressed_file(call, classifier: Path, tmp_path: Path) -> None:
    path = tmp_path / "texts.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"text": "w1"}\n'))
    done = call("predict", classifier, path)
    assert done.code == 0, done.err
    assert json.loads(done.out)["label"] in ("no", "yes")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"txt": "a"}\n', r"texts\.txt:1: no 'text'.*Received: \['txt'\]"),
        (b'w1\n{"no\n', r"texts\.txt:2: not JSON"),
        (b"w1\n{text: 'w1'}\n", r"texts\.txt:2: not JSON"),
        (b'w1\n{"text": "w1", "pair": "w2"}\n', r'texts\.txt:2: a "pair", unlike the first'),
        (b'{"text": 3}\n', r"texts\.txt:1: 'text' must be text. Received: 3"),
        (b"w1\n\xff\n", r"texts\.txt:2: not UTF-8"),
        (None, r"texts\.txt: cannot be read: No such file"),
    ],
)
def test_predict_refuses(
    call, classifier: Path, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "texts.txt"
    if content is not None:
        path.write_bytes(content)
    done = call("predict", classifier, path)
    assert done.code == DataError.exit_code
    assert re.search(message, done.err)


def test_what_was_converted_is_kept_where_a_later_step_fails(
    call, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "tokenizer.json")

    monkeypatch.setattr("bert_keras.cli._tokenizer_files", full)
    done = call("convert", source, tmp_path / "new")
    assert done.code == 5
    assert "but 1 of 2 last steps failed:\n  tokenizer: " in done.err
    assert "No space left on device: 'tokenizer.json'" in done.err
    contracts.assert_same_weights(load_checkpoint(tmp_path / "new"), load_checkpoint(source))
    Predictor(load_checkpoint(source), Tokenizer(_WORDS)).save_to_preset(tmp_path / "asked")
    done = call("convert", tmp_path / "asked", tmp_path / "other")
    assert done.code == 5
    assert "but 1 of 3 last steps failed:\n  tokenizer: " in done.err
    assert (tmp_path / "other" / "predictor.json").is_file()


# === Commands of `bert-keras` that run programs of `bert_keras.training`


_ROOT = Path(__file__).parents[1]


def _call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["bert-keras", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code or 0


@pytest.mark.parametrize("command", PROGRAMS)
def test_every_program_has_its_own_help(command: str, monkeypatch, capsys) -> None:
    assert _call(monkeypatch, command, "--help") == 0
    shown = capsys.readouterr().out
    assert f"bert-keras {command} " in " ".join(shown.split())


def test_every_program_is_a_command() -> None:
    """Each program in bert_keras.training is also a command of `bert-keras`."""
    modules = {module for module, _, _ in PROGRAMS.values()}
    found = set()
    for path in (_ROOT / "bert_keras" / "training").glob("*.py"):
        if "\nif __name__ ==" in path.read_text(encoding="utf-8"):
            found.add(path.stem)
    assert found == modules


@pytest.mark.parametrize("module", sorted({module for module, _, _ in PROGRAMS.values()}))
def test_a_clone_runs_the_same_program(module: str) -> None:
    """`python -m training.X` runs the `main` of bert_keras.training."""
    forwarded = importlib.import_module(f"training.{module}")
    own = importlib.import_module(f"bert_keras.training.{module}")
    assert forwarded.main is own.main
    assert len(inspect.getsource(forwarded).splitlines()) <= 10


def test_errors_and_exit_codes_reach_the_command(monkeypatch, capsys) -> None:
    assert _call(monkeypatch, "pretrain", "demmo") == 2
    assert "Did you mean 'demo'?" in capsys.readouterr().err
    assert _call(monkeypatch, "evaluate", "data=a.csv") == 2
    assert "The model is missing. Write: bert-keras evaluate RUN" in capsys.readouterr().err


def test_convert_checks_the_place_before_it_reads(
    call, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*arguments: object, **options: object) -> None:
        pytest.fail("the model is read")

    monkeypatch.setattr("bert_keras.loading.load_checkpoint", read)
    (tmp_path / "file").touch()
    done = call("convert", source, tmp_path / "file" / "new")
    assert done.code == ResourceError.exit_code
    assert "file/new: could not be written: Not a directory" in done.err
