"""KerasHub's presets: the published tokenizer, from the vocabulary among the assets."""

from __future__ import annotations

import json
import shutil

import pytest

from bert_keras.errors import ArtifactError
from bert_keras.tokenizers import Tokenizer, keras_hub_files
from tests.tokenizers.samples import VOCABULARY

FILES = {
    "roberta": {"vocab.json": "vocabulary.json", "merges.txt": "merges.txt"},
    "albert": {"spiece.model": "vocabulary.spm"},
    "xlm_roberta": {"sentencepiece.bpe.model": "vocabulary.spm"},
}
_WORDPIECE = ("Bert", "DistilBert", "Electra")


def write(folder, class_name: str, **config: object):
    assets = folder / "assets" / "tokenizer"
    assets.mkdir(parents=True)
    content = {"registered_name": f"keras_hub>{class_name}", "class_name": class_name}
    (folder / "tokenizer.json").write_text(json.dumps({**content, "config": config}))
    return assets


@pytest.mark.parametrize("lowercase", [True, False])
def test_wordpiece_that_keras_hub_wrote(lowercase: bool, tmp_path):
    keras_hub = pytest.importorskip("keras_hub", reason="needs KerasHub")
    vocabulary = list(VOCABULARY)
    theirs = keras_hub.models.BertTokenizer(vocabulary, lowercase=lowercase)
    theirs.save_to_preset(str(tmp_path))
    assert Tokenizer.from_preset(tmp_path) == Tokenizer(VOCABULARY, lowercase=lowercase)


@pytest.mark.parametrize("family", FILES)
def test_other_families(family: str, foreign_folders, tmp_path):
    class_name = "XLMRobertaTokenizer" if family == "xlm_roberta" else "Tokenizer"
    assets = write(tmp_path, class_name)
    for name, theirs in FILES[family].items():
        shutil.copy(foreign_folders[family] / name, assets / theirs)
    expected = Tokenizer.from_preset(foreign_folders[family])
    assert Tokenizer.from_preset(tmp_path) == expected


def test_no_vocabulary(tmp_path):
    write(tmp_path, "BertTokenizer", lowercase=True)
    with pytest.raises(ArtifactError, match=r"tokenizer: no vocabulary.txt, .*'BertTokenizer'"):
        Tokenizer.from_preset(tmp_path)


def test_every_key_of_keras_hub_is_known(keras_hub, foreign_folders, tmp_path):
    """Walk the keys that its tokenizers of our families write; one key more is refused."""
    pieces = {token: i for i, token in enumerate(("<s>", "<pad>", "</s>", "<unk>", "a", "aa"))}
    byte_level = {"vocabulary": {**pieces, "<mask>": 6}, "merges": ["a a"]}
    models = {
        **{f"{name}Tokenizer": {"vocabulary": [*VOCABULARY]} for name in _WORDPIECE},
        "RobertaTokenizer": byte_level,
        "AlbertTokenizer": {"proto": (foreign_folders["albert"] / "spiece.model").read_bytes()},
        "XLMRobertaTokenizer": {
            "proto": (foreign_folders["xlm_roberta"] / "sentencepiece.bpe.model").read_bytes()
        },
    }
    known = {*keras_hub_files.HONOURED, *keras_hub_files.IRRELEVANT}
    for name, arguments in models.items():
        written = getattr(keras_hub.models, name)(**arguments).get_config()
        unknown = sorted(set(written) - known)
        assert not unknown, f"{name}: give {unknown} a reason in `keras_hub_files`"
    write(tmp_path, "BertTokenizer", lowercase=True, colour=1)
    with pytest.raises(ArtifactError, match=r"tokenizer\.json: unknown keys: 'colour'"):
        Tokenizer.from_preset(tmp_path)
