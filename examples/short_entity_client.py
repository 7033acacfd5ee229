"""Client of exported taggers in 23 lines, for texts of one row and taggers without a CRF.

`entity_client.py` also handles longer texts and CRFs. Both need ONNX Runtime, tokenizers and NumPy.
"""

import json
import re
from pathlib import Path

import numpy as np


def load(folder):
    """Return rules, tokenizer and session of a folder of `bert-keras export --format onnx`."""
    import onnxruntime
    from tokenizers import Tokenizer

    rules = json.loads(Path(folder, "entities.json").read_text(encoding="utf-8"))
    if rules["crf"]:
        raise ValueError(f"{folder} has a CRF: use entity_client.py.")
    tokenizer = Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
    return rules, tokenizer, onnxruntime.InferenceSession(Path(folder, "model.onnx"))


def find_entities(text, rules, tokenizer, session):
    """Return label, start, end and score of each entity: text[start:end]."""
    places = [found.span() for found in re.finditer(rules["character"], text)]
    letters = "".join(text[start] for start, _ in places)
    groups = [found.regs[1:] for found in re.finditer(rules["word"], letters)]
    spans = [(places[a][0], places[b - 1][1]) for each in groups for a, b in each if a >= 0]
    words = [text[start:end] for start, end in spans]
    pieces = tokenizer.encode(words, is_pretokenized=True, add_special_tokens=False)
    ids, owners = [*rules["begin"], *pieces.ids, *rules["end"]], pieces.word_ids
    if len(ids) > rules["max_length"]:
        raise ValueError(f"A text of {len(ids)} tokens: use entity_client.py.")
    columns = {"token_ids": ids, "padding_mask": [1] * len(ids), "segment_ids": [0] * len(ids)}
    feeds = {each.name: np.int32([columns[each.name]]) for each in session.get_inputs()}
    logits = session.run([rules["output"]], feeds)[0][0, len(rules["begin"]) :]
    shares = np.exp(logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True))
    entities, last = [], ("O", "")
    for word, (start, end) in enumerate(spans):
        share = shares[owners.index(word)] if word in owners else None  # first piece of the word
        letter, label = ("O", "") if share is None else rules["tags"][share.argmax()]
        if last[0] in "BI" and letter in "IE" and last[1] == label:
            entities[-1][2:] = end, [*entities[-1][3], share.max()]
        elif letter != "O":
            entities.append([label, start, end, [share.max()]])
        last = letter, label
    return [(label, start, end, np.mean(scores)) for label, start, end, scores in entities]
