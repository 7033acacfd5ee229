"""The dry run of a pretraining: its counts agree with the actual run."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bert_keras import BertEncoder, Tokenizer
from bert_keras.errors import DataError, UsageError
from bert_keras.tokenizers.vocabulary import SPECIAL_TOKENS
from bert_keras.training import dry_run as module
from bert_keras.training import last_steps, pretrain
from bert_keras.training.dry_run import PretrainPlan, activation_bytes, plan, print_plan
from bert_keras.training.prepare import prepare
from bert_keras.training.pretrain_recipe import PretrainRecipe, load_recipe
from bert_keras.training.pretrain_setup import build_task
from tests.contracts import TINY

RECIPE = PretrainRecipe(
    corpus="text.txt",
    config="bert_tiny_uncased",
    vocab_size=300,
    sequence_length=64,
    batch_size=16,
    steps=1_000,
    name="mine",
)


@pytest.fixture(autouse=True)
def one_gigaflops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "matrix_product_speed", lambda: 1e9)
    monkeypatch.chdir(tmp_path)
    Path(RECIPE.corpus).write_text("A sentence. " * 1_000)  # a single document


def change(**values: object) -> PretrainPlan:
    return plan(dataclasses.replace(RECIPE, **values))


@pytest.mark.parametrize(
    "values",
    [
        {"loss": "nsp"},
        {"loss": "mlm", "max_positions": 64, "config": "bert_mini_uncased"},
        {"loss": "sop", "max_positions": 64, "config": "electra_small_generator"},
        {"loss": "mlm", "max_positions": 64, "config": "albert_base_v2"},
        {"loss": "mlm", "max_positions": 64, "config": "distilbert_base_cased"},
        {"loss": "rtd", "max_positions": 64, "config": "electra_small_discriminator"},
        {"loss": "rtd", "generator_size": 0.5, "config": "bert_mini_uncased"},
    ],
)
def test_parameters_are_those_of_the_model(values: dict) -> None:
    recipe = dataclasses.replace(RECIPE, **values)
    assert plan(recipe).parameters == build_task(recipe, recipe.vocab_size).count_params()


def test_a_model_that_is_larger_than_the_machine() -> None:
    before = module.machine.peak_memory_bytes()
    sizes = {"hidden_size": 25_600, "num_heads": 200, "intermediate_size": 102_400}
    found = change(**sizes, num_layers=127, max_positions=512)
    after = module.machine.peak_memory_bytes()
    blocks = 127 * (12 * 25_600**2 + 13 * 25_600)
    assert found.parameters == pytest.approx(blocks, rel=1e-2)
    assert found.memory > 16e12
    assert before is not None
    assert after is not None
    assert after - before < 2**29


def test_parameters_of_a_checkpoint_are_read_from_its_config(tmp_path: Path) -> None:
    encoder = BertEncoder(TINY.replace(pooler=False, max_positions=64))
    encoder.save_to_preset(tmp_path)
    Tokenizer([*SPECIAL_TOKENS, *map(str, range(TINY.vocab_size - 5))]).save_to_preset(tmp_path)
    recipe = dataclasses.replace(RECIPE, init_checkpoint=str(tmp_path), loss="mlm")
    found = plan(recipe)
    assert found.vocab_size == TINY.vocab_size
    assert found.parameters == build_task(recipe, TINY.vocab_size).count_params()
    with pytest.raises(UsageError, match="sequence_length=512"):
        plan(dataclasses.replace(recipe, sequence_length=512))


def test_time_and_memory_follow_the_size() -> None:
    """The time follows from 6 operations for each parameter and token (Kaplan et al., 2020)."""
    found = change()
    tokens = 1_000 * 16 * 64
    assert found.tokens_read == tokens
    blocks = 2 * 12 * 128**2  # parameters of the weight matrices in the blocks
    least = 6 * tokens * blocks / (1e9 * module.EFFICIENCY)
    assert least < found.seconds < 1.5 * least
    assert found.seconds < change(loss="rtd", generator_size=0.5).seconds < 2 * found.seconds
    assert change(steps=2_000).seconds == pytest.approx(2 * found.seconds)
    assert change(batch_size=32).memory > found.memory > 16 * found.parameters
    assert change(precision="mixed_bfloat16").memory < found.memory
    assert change(gradient_checkpointing=True).memory < found.memory
    assert change(loss_chunks=4).memory < found.memory


def test_local_layers_have_the_keys_of_their_bands() -> None:
    """A band has at least 32 tokens. Rows of few bands, and scores of distances, have none."""
    config = TINY.replace(num_layers=3, window=2, global_every=3, max_positions=512)
    block = BertEncoder(config).blocks[0]
    for changes, length, keys in (
        ({}, 200, [200, 3 * 32, 3 * 32]),
        ({"window": 40}, 200, [200, 3 * 40, 3 * 40]),
        ({}, 96, [96, 96, 96]),
        ({"attention_positions": "alibi"}, 200, [200, 200, 200]),
        ({"position_embedding": "relative_key"}, 200, [200, 200, 200]),
        ({"window": None}, 200, [200, 200, 200]),
    ):
        changed = config.replace(**changes)
        products = [module.products_of([block], changed, tokens) for tokens in (length, 0)]
        assert products[0] - products[1] == 2 * sum(keys) * changed.hidden_size
        scores = [
            activation_bytes(RECIPE, changed.replace(num_heads=heads), 1, length)
            for heads in (2, 1)
        ]
        assert scores[0] - scores[1] == module.FLOAT * length * 5 * sum(keys)


@pytest.mark.parametrize(
    ("changes", "of_each_query"),
    [
        ({}, 5 * 2 * 96),
        ({"attention_dropout": 0.1}, 5 * (2 * 96 + 4096)),
        ({"attention_positions": "alibi"}, 4096),  # all layers have the same
        ({"attention_positions": "buckets", "position_buckets": 8, "max_distance": 6}, 4096),
        ({"position_embedding": "relative_key"}, 3 * 2 * 4096),
        ({"attention_positions": "disentangled", "max_distance": 4}, 3 * 2 * 4096),
        ({"attention_positions": "rotary"}, 5 * 2 * 96),
    ],
)
def test_long_rows_keep_scores_for_dropout_and_for_distances(
    changes: dict[str, Any], of_each_query: int
) -> None:
    values = {"attention_dropout": 0.0, "window": 2, "global_every": 3, **changes}
    config = TINY.replace(num_layers=3, **values)
    scores = [
        activation_bytes(RECIPE, config.replace(num_heads=heads), 1, 4096) for heads in (2, 1)
    ]
    assert scores[0] - scores[1] == module.FLOAT * 4096 * of_each_query


def test_text_that_is_not_there() -> None:
    found = change()
    assert found.text_bytes == 12_000
    with pytest.raises(DataError, match="no such file"):
        change(corpus="nowhere.txt")


def test_text_in_files(tmp_path: Path) -> None:
    tmp_path = tmp_path / "files"
    tmp_path.mkdir()
    for name in ("a.txt", "b.txt", "picture.png"):
        (tmp_path / name).write_bytes(b"x" * 450_000)
    found = change(corpus=str(tmp_path))
    assert found.text_bytes == 900_000
    assert found.epochs == pytest.approx(found.tokens_read / 200_000)
    assert change(corpus=str(tmp_path / "a*")).text_bytes == 450_000
    (tmp_path / "c.txt.gz").write_bytes(b"x" * 1_000)
    assert change(corpus=str(tmp_path)).text_bytes == 902_800


def test_vocabularies(tmp_path: Path) -> None:
    assert change().vocab_size == 300
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\n")
    assert change(vocab=str(tmp_path / "vocab.txt")).vocab_size == 6
    assert change(vocab=str(tmp_path)).vocab_size == 6
    with pytest.raises(UsageError, match="nowhere: no such file"):
        change(vocab="nowhere")


def test_a_prepared_corpus(tmp_path: Path, text_file: Path) -> None:
    folder = tmp_path / "corpus"
    made = prepare(corpus=str(text_file), out=folder, layout="sentences", vocab_size=250, workers=1)
    found = change(corpus=str(folder))
    assert found.vocab_size == 250
    assert found.text_bytes == made.corpora["train"].manifest["counts"]["text_bytes"]


def test_too_few_validation_documents() -> None:
    with pytest.raises(
        DataError, match=r"1 documents, of which validation_split=0\.02 keeps 0; .* needs 2"
    ):
        print_plan(RECIPE)


def test_what_is_printed() -> None:
    Path(RECIPE.corpus).write_text("A sentence. One more.\n\n" * 52)
    screen = io.StringIO()
    print_plan(RECIPE, console=Console(file=screen, width=120))
    text = " ".join(screen.getvalue().split())
    for words in (
        "mine: the plan; nothing was written",
        "0.0 MB",
        f"{plan(RECIPE).parameters:,} parameters",
        "1,000 steps of 16, nsp, token",
        "1,024,000 tokens read",
        "runs/mine",
        "saved_models/mine/<version>",
        "attention │ in training │ the backend's own operations",
    ):
        assert words in text


def test_the_kernel_of_attention_is_that_of_the_encoder() -> None:
    for values in ({}, {"attention_dropout": 0.0}, {"precision": "mixed_float16"}):
        recipe = dataclasses.replace(RECIPE, **values)
        encoder = build_task(recipe, recipe.vocab_size).encoder
        assert plan(recipe).attention == encoder.describe_kernels()["training"]
    modern = dataclasses.replace(load_recipe("modern_mini"), corpus=RECIPE.corpus)
    assert "local layers in bands of 64 tokens" in plan(modern).attention


def _printed(*, is_quicktest: bool = False, **values: object) -> str:
    Path(RECIPE.corpus).write_text("A sentence. One more.\n\n" * 52)
    screen = io.StringIO()
    recipe = dataclasses.replace(RECIPE, **values)  # pyright: ignore[reportArgumentType]
    print_plan(recipe, is_quicktest=is_quicktest, console=Console(file=screen, width=150))
    return screen.getvalue()


def test_only_what_will_be_written_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = set()
    monkeypatch.setattr(
        module.importlib.util, "find_spec", lambda name: name not in missing or None
    )
    folder = "run.json, corpus, checkpoints, metrics.jsonl, speed.jsonl, model, tokenizer"
    assert folder in _printed(export=True)
    assert "saved_models/mine/" in _printed(export=True)
    assert "saved_models" not in _printed(export=False)
    for name in ("exported.json", "loss.png", "report.md"):
        assert name in _printed(export=True)
    assert "tensorboard" in _printed(tensorboard=True)
    assert "tensorboard" not in _printed(tensorboard=False)
    missing |= {"tensorflow_text", "matplotlib"}
    assert "saved_models" not in _printed(export=True)
    assert "loss.png" not in _printed(export=True)
    assert "exported.json" not in _printed(export=True)


def test_the_files_of_a_run_are_listed(tiny: str, tmp_path: Path, call) -> None:
    recipe = load_recipe(tiny)
    folder = tmp_path / "run"
    done = call(pretrain.main, tiny, f"out={folder}", "steps=4")
    assert done.code == 0, done.err
    told = module.files_of_run(recipe)
    patterns = {step.name: step.writes for step in last_steps.STEPS}
    matched = set()
    for name in told:
        found = {path.name for each in patterns.get(name, [name]) for path in folder.glob(each)}
        assert found, f"{name} is not written"
        matched |= found
    assert {path.name for path in folder.iterdir()} - {"LOCK"} == matched


def test_a_folder_that_the_run_would_refuse(tiny: str, tmp_path: Path, call) -> None:
    assert call(pretrain.main, tiny, "out=run", "steps=2").code == 0
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").touch()
    for out, message in (("run", "holds a run with other values"), ("taken", "is not the folder")):
        words = (tiny, f"out={out}", "seed=3")
        planned, done = call(pretrain.main, *words, "--dry-run"), call(pretrain.main, *words)
        assert (planned.code, planned.err) == (done.code, done.err)
        assert done.code == 2
        assert message in planned.err
    assert call(pretrain.main, tiny, "out=run", "steps=2", "--dry-run").code == 0


def test_own_sizes_are_named() -> None:
    assert " bert_tiny_uncased, but num_layers=3" in _printed(num_layers=3)
    assert "but" not in _printed()


def test_the_exported_part_is_named() -> None:
    assert "the discriminator's encoder" in _printed(loss="rtd", generator_size=0.5)
    assert "discriminator" not in _printed()


def test_a_quick_test_writes_into_its_folder() -> None:
    text = _printed(is_quicktest=True)
    assert "a temporary folder" in text
    assert "in the run folder" in text
    assert "runs/" not in text
    assert "elsewhere" in _printed(is_quicktest=True, out="elsewhere")


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.machine, "facts", lambda: {"memory_bytes": 2**20})
    assert " more than this machine has, 1.0 MiB" in _printed()


def test_the_speed_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert module.matrix_product_speed() > 1e7
