"""Small tokenizer folders with the files and keys that the newer model families publish."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

from bert_keras.tokenizers.backend_files import read_sentencepiece
from bert_keras.tokenizers.encoding import ROLES
from tests.tokenizers import learners
from tests.tokenizers.samples import VOCABULARY

# Words of Llama 3, as EuroBERT splits them: numbers have at most three digits.
LLAMA_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


# Classes whose mask token includes the space before it -> the mask token.
_TAKES_SPACE = {
    "RobertaTokenizer": "<mask>",
    "DebertaTokenizer": "[MASK]",
    "RemBertTokenizer": "[MASK]",
}


class Published(NamedTuple):
    """Files of one kind of tokenizer, as published.

    Args:
        write: function that writes the vocabulary files into a folder.
        opener: class of transformers that opens them.
        configs: file name -> content, of the settings beside the vocabulary.
        families: model types that publish such files.
        converter: class of transformers that makes a tokenizer.json of these files, if the opener
            does not give the ids of the published models: DeBERTa's leaves out the character rules
            of SentencePiece or doubles [SEP], RemBERT's adds no special tokens.
        options: attributes that the converter reads.
    """

    write: Callable[[Path], None]
    opener: str
    configs: dict[str, dict[str, Any]]
    families: tuple[str, ...]
    converter: str = ""
    options: Mapping[str, Any] = MappingProxyType({})

    def folder(self, folder: Path) -> Path:
        """Write all files into a new folder, and return it."""
        folder.mkdir(parents=True)
        self.write(folder)
        for name, content in self.configs.items():
            (folder / name).write_text(json.dumps(content), encoding="utf-8")
        return folder

    def opened(self, folder: Path, transformers: Any) -> Any:
        """Return transformers' tokenizer of the folder, which gives the expected ids."""
        opener = getattr(transformers, self.opener)
        if not self.converter:
            return opener.from_pretrained(folder, **self._mask(transformers))
        values = opener.from_pretrained(folder)
        roles = {f"{role}_token": getattr(values, f"{role}_token") for role in ROLES}
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=self._converted(folder),
            **{**roles, **self._mask(transformers)},
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        )

    def _mask(self, transformers: Any) -> dict[str, Any]:
        """Return the mask token as published; transformers 5 loses that it takes the space."""
        if (mask := _TAKES_SPACE.get(self.opener)) is None:
            return {}
        return {"mask_token": transformers.AddedToken(mask, lstrip=True, special=True)}

    def _converted(self, folder: Path) -> Any:
        """Return the tokenizer that transformers' converter makes of the files."""
        from tokenizers import AddedToken
        from transformers.convert_slow_tokenizer import SLOW_TO_FAST_CONVERTERS

        options = {"legacy": True, "add_prefix_space": True, **self.options}
        if (folder / "vocab.json").is_file():
            ids = json.loads((folder / "vocab.json").read_bytes())
            merges = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")[1:-1]
            ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
            options |= {"encoder": ids, "bpe_ranks": ranks}
        else:
            path = next(folder.glob("*.model"))
            ids = dict(read_sentencepiece(path).pieces)
            ids = {piece: index for index, piece in enumerate(ids)}
            options["vocab_file"] = str(path)
        slow = SimpleNamespace(convert_tokens_to_ids=ids.__getitem__, **options)
        engine = SLOW_TO_FAST_CONVERTERS[self.converter](slow).converted()
        # Control symbols of a model file are there already, without the space before the mask.
        takes_space = self.opener in _TAKES_SPACE
        engine.add_special_tokens([AddedToken("[MASK]", lstrip=takes_space, special=True)])
        return engine


def _wordpiece(*pieces: str) -> Callable[[Path], None]:
    """Return a writer of a vocab.txt with these pieces."""

    def write(folder: Path) -> None:
        (folder / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")

    return write


def _byte_level(special: tuple[str, ...]) -> Callable[[Path], None]:
    """Return a writer of a vocab.json and a merges.txt with these special tokens."""

    def write(folder: Path) -> None:
        learners.byte_level(folder)
        ids = json.loads((folder / "vocab.json").read_bytes())
        words = sorted(ids, key=ids.__getitem__)[5:]
        # The mask comes last, as in the published files.
        ids = {piece: index for index, piece in enumerate((*special[:-1], *words, special[-1]))}
        (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")

    return write


def _unigram(name: str, **options: object) -> Callable[[Path], None]:
    """Return a writer of a SentencePiece model."""
    return lambda folder: learners.sentencepiece(folder, name, **options)


_BERT_TOKENS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
_MPNET = ("<s>", "<pad>", "</s>", "<unk>", *VOCABULARY, "<mask>")
_DEBERTA = {
    "pad_id": 0,
    "bos_id": 1,
    "eos_id": 2,
    "unk_id": 3,
    "pad_piece": "[PAD]",
    "bos_piece": "[CLS]",
    "eos_piece": "[SEP]",
    "unk_piece": "[UNK]",
}
_REMBERT = {
    "pad_id": 0,
    "bos_id": -1,
    "eos_id": 1,
    "unk_id": 2,
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
}
_MASK = {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "normalized": True}


def _of(family: str, **config: Any) -> dict[str, dict[str, Any]]:
    """Return the settings of a folder: the model type, and the keys of tokenizer_config.json."""
    settings = {"config.json": {"model_type": family}}
    return settings | ({"tokenizer_config.json": config} if config else {})


KINDS: dict[str, Published] = {
    "bert": Published(
        _wordpiece(*VOCABULARY),
        "BertTokenizer",
        _of(
            "nomic_bert", tokenizer_class="BertTokenizer", do_lower_case=True, model_max_length=8192
        ),
        ("bert", "distilbert", "electra", "ernie", "megatron-bert", "nomic_bert", "gte"),
    ),
    "mpnet": Published(
        _wordpiece(*_MPNET),
        "MPNetTokenizer",
        _of(
            "mpnet",
            tokenizer_class="MPNetTokenizer",
            do_lower_case=True,
            tokenize_chinese_chars=True,
            strip_accents=None,
            bos_token="<s>",
            eos_token="</s>",
            cls_token="<s>",
            sep_token="</s>",
            unk_token="[UNK]",
            pad_token="<pad>",
            mask_token=_MASK,
            model_max_length=512,
            special_tokens_map_file=None,
            name_or_path="microsoft/mpnet-base",
        ),
        ("mpnet",),
    ),
    "mpnet_without_settings": Published(
        _wordpiece(*_MPNET), "MPNetTokenizer", _of("mpnet"), ("mpnet",)
    ),
    "mpnet_without_tokens_of_bert": Published(
        _wordpiece(*_MPNET[:4], *VOCABULARY[len(_BERT_TOKENS) :], "<mask>"),
        "MPNetTokenizer",
        _of("mpnet", tokenizer_class="MPNetTokenizer", unk_token="<unk>"),
        ("mpnet",),
    ),
    "roberta": Published(
        _byte_level(("<s>", "<pad>", "</s>", "<unk>", "<mask>")),
        "RobertaTokenizer",
        _of("data2vec-text", tokenizer_class="RobertaTokenizer", add_prefix_space=False),
        ("roberta", "data2vec-text", "roberta-prelayernorm"),
    ),
    "deberta": Published(
        _byte_level(_BERT_TOKENS),
        "DebertaTokenizer",
        _of("deberta", do_lower_case=False, vocab_type="gpt2"),
        ("deberta",),
        "DebertaTokenizer",
        {"add_prefix_space": False},
    ),
    "xlm_roberta": Published(
        _unigram("sentencepiece.bpe.model"),
        "XLMRobertaTokenizer",
        _of("xlm-roberta", model_max_length=512),
        ("xlm-roberta", "xlm-roberta-xl", "jina_embeddings_v3", "gte"),
    ),
    "camembert": Published(
        _unigram("sentencepiece.bpe.model"),
        "CamembertTokenizer",
        _of("camembert", model_max_length=512),
        ("camembert",),
    ),
    "deberta_v3": Published(
        _unigram("spm.model", **_DEBERTA, byte_fallback=True, vocab_size=500),
        "DebertaV2Tokenizer",
        _of("deberta-v2", do_lower_case=False, vocab_type="spm"),
        ("deberta-v2",),
        "DebertaV2Tokenizer",
        {"do_lower_case": False, "split_by_punct": False},
    ),
    "deberta_v2_uncased": Published(
        _unigram("spm.model", **_DEBERTA, control_symbols=["[MASK]"]),
        "DebertaV2Tokenizer",
        _of(
            "deberta-v2",
            tokenizer_class="DebertaV2Tokenizer",
            do_lower_case=True,
            split_by_punct=True,
            sp_model_kwargs={},
            unk_id=3,
        ),
        ("deberta-v2",),
        "DebertaV2Tokenizer",
        {"do_lower_case": True, "split_by_punct": True},
    ),
    "rembert": Published(
        _unigram("sentencepiece.model", **_REMBERT),
        "RemBertTokenizer",
        _of("rembert", do_lower_case=False, keep_accents=True, remove_space=True),
        ("rembert",),
        "RemBertTokenizer",
        {"do_lower_case": False, "keep_accents": True},
    ),
    "rembert_uncased": Published(
        _unigram("sentencepiece.model", **_REMBERT),
        "RemBertTokenizer",
        _of("rembert", tokenizer_class="RemBertTokenizer", do_lower_case=True, keep_accents=False),
        ("rembert",),
        "RemBertTokenizer",
        {"do_lower_case": True, "keep_accents": False},
    ),
}


# === Families that publish a tokenizer.json alone ===


def _learned(engine: Any, **options: Any) -> Any:
    """Train a byte-level BPE in place, with merges inside the words that it splits."""
    from tokenizers import pre_tokenizers, trainers

    trainer = trainers.BpeTrainer(
        vocab_size=330,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        **options,
    )
    engine.train_from_iterator(learners.TEXT, trainer)
    return engine


def modernbert(folder: Path, transformers: Any) -> None:
    """Write ModernBERT's tokenizer: byte-level BPE, runs of spaces, [CLS] and [SEP]."""
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

    engine = tokenizers.Tokenizer(models.BPE())
    engine.normalizer = normalizers.NFC()
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    _learned(engine, special_tokens=["|||IP_ADDRESS|||", "<|padding|>"])
    spaces = [tokenizers.AddedToken(" " * n, normalized=True) for n in range(8, 1, -1)]
    engine.add_tokens([*spaces, "|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||"])
    special = ("<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]")
    engine.add_special_tokens(
        [
            *special,
            tokenizers.AddedToken("[MASK]", lstrip=True, special=True),
        ]
    )
    engine.add_tokens([f"[unused{number}]" for number in range(3)])
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[(token, engine.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
    )
    _save(
        transformers,
        folder,
        engine,
        clean_up_tokenization_spaces=True,
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=8192,
        **{f"{role}_token": f"[{role.upper()}]" for role in ("unk", "cls", "sep", "pad", "mask")},
    )


def llama(
    folder: Path,
    transformers: Any,
    *,
    start_of_pair: bool = True,
    tokens: tuple[str, str, str] = ("<|begin_of_text|>", "<|end_of_text|>", "<|mask|>"),
) -> None:
    """Write EuroBERT's tokenizer: Llama 3's split, and no unknown token.

    Args:
        folder: folder of the files.
        transformers: the library.
        start_of_pair: whether the first token also precedes the second text.
        tokens: token at the beginning, at the end and for padding, and the mask.
    """
    import tokenizers
    from tokenizers import Regex, decoders, models, pre_tokenizers, processors

    begin, end, mask = tokens
    engine = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.decoder = decoders.ByteLevel()
    _learned(engine)
    engine.add_special_tokens([*dict.fromkeys(tokens), "<|reserved|>"])
    second = f"{begin}:1 $B:1 {end}:1" if start_of_pair else f"$B:1 {end}:1"
    engine.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single=f"{begin}:0 $A:0 {end}:0",
                pair=f"{begin}:0 $A:0 {end}:0 {second}",
                special_tokens=[(token, engine.token_to_id(token)) for token in {begin, end}],
            ),
        ]
    )
    _save(
        transformers,
        folder,
        engine,
        model_input_names=["input_ids", "attention_mask"],
        bos_token=begin,
        eos_token=end,
        mask_token=mask,
        pad_token=end,
    )


def _save(transformers: Any, folder: Path, engine: Any, **config: Any) -> None:
    """Write the folder with transformers' general class."""
    transformers.PreTrainedTokenizerFast(tokenizer_object=engine, **config).save_pretrained(folder)


ENGINES: dict[str, Callable[[Path, Any], None]] = {
    "modernbert": modernbert,
    "eurobert": llama,
    "eurobert_one_start": lambda folder, library: llama(folder, library, start_of_pair=False),
    # UltraBERT's config names one token for the beginning, the end and padding.
    "ultrabert": lambda folder, library: llama(
        folder, library, start_of_pair=False, tokens=("<|end|>", "<|end|>", "<|mask|>")
    ),
}


def families() -> Iterator[str]:
    """Yield the model types of all kinds."""
    for kind in KINDS.values():
        yield from kind.families
    yield from ("modernbert", "eurobert", "ultrabert")


def write_tokenizer(folder: Path, model_type: str, transformers: Any) -> None:
    """Write the tokenizer of a model type into a new folder, as published.

    RoFormer's has a step that is in no file; here it gets BERT's.
    """
    if model_type in ENGINES:
        ENGINES[model_type](folder, transformers)
    elif model_type in learners.FAMILIES:
        folder.mkdir()
        learners.FAMILIES[model_type](folder)
    else:
        wanted = "bert" if model_type == "roformer" else model_type
        next(kind for kind in KINDS.values() if wanted in kind.families).folder(folder)
