"""Tokenizers of the newer families: ids equal those of transformers, in folders as published."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import Tokenizer, tokenizer_families
from bert_keras.tokenizers.tokenizer_families import FAMILIES, MODEL_TYPES, REFUSED, family_name
from tests.tokenizers import family_folders
from tests.tokenizers.learners import TEXT
from tests.tokenizers.samples import TRICKY, VOCABULARY

TEXTS = (
    *TEXT,
    *(text for text in TRICKY if "aaa" not in text),
    "a <s> b </s><pad> [SEP] <unk> c<mask>d [MASK]e [MASK] f <mask> <|mask|> g <|end_of_text|> h",
    "``quoted'' ''  two   spaces \n\n and 12345 numbers, I'LL   ",
    "½ ﬁ ｆｕｌｌ ² № ™ İ ǅ",
    "|||IP_ADDRESS||| of        eight spaces",
)
SLOW, SAVED, CONVERTED = "slow", "saved", "converted"
CASES = (
    *((kind, SLOW) for kind in family_folders.KINDS),
    *((kind, SAVED) for kind in family_folders.KINDS),
    *((name, CONVERTED) for name, kind in family_folders.KINDS.items() if kind.converter),
    *((name, SAVED) for name in family_folders.ENGINES),
)


class Opened(NamedTuple):
    """A folder, and the tokenizer of transformers that gives the expected ids."""

    folder: Path
    reference: Any


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, transformers: Any) -> dict[Any, Opened]:
    """Return the folders of all cases."""
    pytest.importorskip("sentencepiece")
    top, found = tmp_path_factory.mktemp("families"), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # transformers does not close its files
        warnings.filterwarnings("ignore", ".* uses the byte fallback option", UserWarning)
        for name, kind in family_folders.KINDS.items():
            folder = kind.folder(top / name / SLOW)
            reference = kind.opened(folder, transformers)
            found[name, SLOW] = Opened(folder, reference)
            opener, saved = getattr(transformers, kind.opener), top / name / SAVED
            opener.from_pretrained(folder).save_pretrained(saved)
            shutil.copy(folder / "config.json", saved)
            found[name, SAVED] = Opened(saved, opener.from_pretrained(saved))
            if kind.converter:
                made = top / name / CONVERTED
                reference.save_pretrained(made)
                path = made / "tokenizer_config.json"
                values = json.loads(path.read_bytes()) | kind.configs.get(path.name, {})
                values["tokenizer_class"] = f"{kind.opener}Fast"
                path.write_text(json.dumps(values), encoding="utf-8")
                found[name, CONVERTED] = Opened(made, reference)
        for name, write in family_folders.ENGINES.items():
            write(top / name, transformers)
            reference = transformers.AutoTokenizer.from_pretrained(top / name)
            found[name, SAVED] = Opened(top / name, reference)
    return found


def open_without_warning(folder: Path) -> Tokenizer:
    """Open a tokenizer of ours; each warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Tokenizer.from_preset(folder)


def assert_equal(ours: Tokenizer, reference: Any, texts: Sequence[str]) -> None:
    """Compare single texts, pairs that are cut, and texts without special tokens."""
    batch = ours(texts, texts[::-1], max_length=24)
    plain = ours.text_ids(texts)
    options = {"return_token_type_ids": True, "truncation": True, "max_length": 24}
    bare = {"add_special_tokens": False, "split_special_tokens": True}
    for index, (text, other) in enumerate(zip(texts, texts[::-1], strict=True)):
        assert ours.encode(text).ids == reference(text)["input_ids"], text
        short = reference(text, **options)
        assert ours.encode(text, max_length=24).ids == short["input_ids"], text
        if not any(token in text for token in reference.all_special_tokens):
            assert plain[index] == reference(text, **bare)["input_ids"], text
        if not other:
            continue  # transformers 5 takes an empty second text for none
        expected = reference(text, other, **options)
        encoding = ours.encode(text, other, max_length=24)
        assert encoding.ids == expected["input_ids"], (text, other)
        assert encoding.segment_ids == expected["token_type_ids"], (text, other)
        used = batch["padding_mask"][index] == 1
        assert batch["token_ids"][index][used].tolist() == expected["input_ids"]
        if "segment_ids" in batch:
            assert batch["segment_ids"][index][used].tolist() == expected["token_type_ids"]
        assert set(batch["token_ids"][index][~used]) <= {reference.pad_token_id}


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_ids_equal_those_of_transformers(case: tuple[str, str], opened: dict[Any, Opened]) -> None:
    folder, reference = opened[case]
    ours = open_without_warning(folder)
    assert_equal(ours, reference, TEXTS)
    assert ours.vocab_size == len(reference)
    for role in ("pad", "unk", "cls", "sep", "mask"):
        if (token := getattr(reference, f"{role}_token")) is not None:
            assert getattr(ours.scheme, role) == token


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_real_strings(
    case: tuple[str, str], opened: dict[Any, Opened], shared_data: Path, naughty: list[str]
) -> None:
    """Ids are equal on the list of naughty strings and on the golden lines."""
    texts = [*naughty]
    for path in sorted((shared_data / "golden_tokenization").glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        texts += [json.loads(line)["text"] for line in lines]
    assert len(texts) > 1_500
    folder, reference = opened[case]
    assert_equal(open_without_warning(folder), reference, texts)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_written_and_opened_again(
    case: tuple[str, str], opened: dict[Any, Opened], transformers: Any, tmp_path: Path
) -> None:
    """A folder that `save_to_preset` wrote gives the same ids here and in transformers."""
    ours = open_without_warning(opened[case].folder)
    ours.save_to_preset(tmp_path)
    assert open_without_warning(tmp_path) == ours
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert_equal(ours, reference, TEXTS[-12:])


def test_deberta_equals_sentencepiece(opened: dict[Any, Opened]) -> None:
    """The character rules of the model file apply, which transformers 5 leaves out.

    Bytes of unknown characters are one [UNK], as in all fast tokenizers of transformers.
    """
    import sentencepiece

    folder = opened["deberta_v3", SLOW].folder
    library = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    ours = Tokenizer.from_preset(folder)
    for text in ("½ ﬁ ² №", " two   spaces \n\n and 1,000 shells ", "the newest ﬂower…"):
        assert ours.text_ids([text])[0] == library.encode(text)
    assert ours.unk_id not in ours.text_ids(["½ ﬁ ² №"])[0]
    assert "<0xF0>" in library.encode("𒀀", out_type=str)
    assert ours.encode("𒀀").tokens == ["[CLS]", "▁", "𒀀", "[SEP]"]
    assert ours.encode("𒀀").ids[2] == ours.unk_id


# === The table ===


def test_every_class_and_model_type_is_one_of_transformers(transformers: Any) -> None:
    names = transformers.models.auto.tokenization_auto.TOKENIZER_MAPPING_NAMES
    for name in (*FAMILIES, *REFUSED):
        assert hasattr(transformers, f"{name}Tokenizer"), name
        for ending in ("Tokenizer", "TokenizerFast"):
            assert family_name(f"{name}{ending}", "bert") == name
    for model_type, name in MODEL_TYPES.items():
        assert family_name(None, model_type) == name
        # A general class has none of the steps for which a family is refused.
        of_general = None if name in REFUSED else name
        assert family_name("PreTrainedTokenizerFast", model_type) == of_general
        assert names[model_type] in (f"{name}Tokenizer", "TokenizersBackend")
        assert family_name("MyTokenizer", model_type) is None
    assert set(family_folders.families()) <= {*names, "eurobert", "ultrabert"}


def test_every_file_has_a_family() -> None:
    for family in FAMILIES.values():
        assert FAMILIES[tokenizer_families.families_with(family.file)[0]].file == family.file


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("has_engine", [True, False])
def test_families_with_a_step_of_their_own_are_refused(
    name: str, has_engine: bool, tmp_path: Path
) -> None:
    Tokenizer(VOCABULARY).save_to_preset(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    (tmp_path / "tokenizer.json" if not has_engine else tmp_path / "vocab.txt").unlink()
    Tokenizer.from_preset(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"tokenizer_class": f"{name}Tokenizer"}))
    with pytest.raises(ArtifactError, match=rf"needs another tokenizer: {name}Tokenizer .* ids\.$"):
        Tokenizer.from_preset(tmp_path)


@pytest.mark.parametrize("case", [("deberta_v3", SLOW), ("camembert", SLOW), ("deberta", SLOW)])
def test_the_mask_takes_the_space_where_the_files_say_so(
    case: tuple[str, str], opened: dict[Any, Opened], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(opened[case].folder, tmp_path / "copy"))
    mask = Tokenizer.from_preset(folder).scheme.mask
    lengths = []
    for takes_space in (True, False):
        values = {"mask_token": {"content": mask, "lstrip": takes_space}}
        (folder / "special_tokens_map.json").write_text(json.dumps(values))
        lengths.append(Tokenizer.from_preset(folder).encode(f"the {mask}").offsets[-2][0])
    assert lengths == [3, 4]


def test_an_added_token_with_the_id_of_another_piece_is_refused(
    opened: dict[Any, Opened], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(opened["deberta_v3", SLOW].folder, tmp_path / "copy"))
    mask_id = Tokenizer.from_preset(folder).mask_id
    (folder / "added_tokens.json").write_text(json.dumps({"[MASK]": mask_id}))
    assert open_without_warning(folder).mask_id == mask_id
    (folder / "added_tokens.json").write_text(json.dumps({"[MASK]": mask_id + 1}))
    with pytest.raises(ArtifactError, match=r"id of \[MASK\]"):
        Tokenizer.from_preset(folder)
