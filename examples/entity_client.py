"""Client of exported taggers, to copy: it needs only ONNX Runtime, tokenizers and NumPy."""

import json
import re
from pathlib import Path

import numpy as np


class EntityFinder:
    """Entity finder like `Predictor`, for a folder of `bert-keras export --format onnx`."""

    def __init__(self, folder):
        import onnxruntime
        from tokenizers import Tokenizer

        self.rules = json.loads(Path(folder, "entities.json").read_text(encoding="utf-8"))
        self.session = onnxruntime.InferenceSession(Path(folder, "model.onnx"))
        self.tokenizer = Tokenizer.from_file(str(Path(folder, "tokenizer.json")))
        self.tokenizer.encode_special_tokens = True  # "[MASK]" in a text is ordinary text

    def __call__(self, text):
        """Return label, start, end and score of each entity: text[start:end]."""
        spans = self.words(text)
        joined = " ".join(text[start:end] for start, end in spans)
        pieces = self.tokenizer.encode(joined, add_special_tokens=False)
        starts = [end - len(joined[start:end].lstrip()) for start, end in pieces.offsets]
        ends = np.cumsum([end - start + 1 for start, end in spans])
        owners = np.searchsorted(ends, starts, side="right")  # index of the word of each piece
        tags = [("O", "", 0.0)] * len(spans)  # words without pieces keep this tag
        for first, stop in self.rows(owners):
            is_first = np.diff(owners[first:stop], prepend=-1) != 0
            found = self.best(pieces.ids[first:stop], np.flatnonzero(is_first))
            for word, tag, score in zip(owners[first:stop][is_first], *found, strict=True):
                tags[word] = (*self.rules["tags"][tag], score)
        entities, last = [], ("O", "")
        for (start, end), (letter, label, score) in zip(spans, tags, strict=True):
            if last[0] in "BI" and letter in "IE" and last[1] == label:
                entities[-1][2] = end
                entities[-1][3].append(score)
            elif letter != "O":
                entities.append([label, start, end, [score]])
            last = letter, label
        return [(label, start, end, float(np.mean(each))) for label, start, end, each in entities]

    def words(self, text):
        """Return start and end of each word of a text."""
        places = [match.span() for match in re.finditer(self.rules["character"], text)]
        letters = "".join(text[start] for start, _ in places)
        groups = [m.regs[1:] for m in re.finditer(self.rules["word"], letters)]
        return [(places[a][0], places[b - 1][1]) for each in groups for a, b in each if a >= 0]

    def rows(self, owners):
        """Yield start and stop of each row's pieces; a word longer than a row loses its end."""
        room = self.rules["max_length"] - len(self.rules["begin"] + self.rules["end"])
        first = 0
        while first < len(owners):
            stop = after = min(first + room, len(owners))
            if stop < len(owners) and owners[stop] == owners[stop - 1]:  # the row ends in a word
                after = np.searchsorted(owners, owners[stop])
                stop = after if after > first else stop
                after = stop if after > first else np.searchsorted(owners, owners[stop], "right")
            yield first, stop
            first = after

    def best(self, ids, counted):
        """Return the tags of the counted pieces, and their probabilities."""
        ids = [*self.rules["begin"], *ids, *self.rules["end"]]
        columns = {"token_ids": ids, "padding_mask": [1] * len(ids), "segment_ids": [0] * len(ids)}
        feeds = {
            each.name: np.array([columns[each.name]], np.int32)
            for each in self.session.get_inputs()
        }
        output = self.session.run([self.rules["output"]], feeds)[0][0].astype(np.float64)
        scores = output[counted + len(self.rules["begin"])]
        if self.rules["crf"]:
            return chain(scores, output[0, :, -1])
        shares = np.exp(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))
        return shares.argmax(axis=-1), shares.max(axis=-1)


def chain(potentials, ends):
    """Return the best tags of a conditional random field, and the marginal probability of each.

    `potentials` is [pieces, tags + 1, tags + 1]. The last state stands before and after the text.
    `ends` has the potential of each state at the end of the text.
    """
    best = forward = np.append(np.full(len(ends) - 1, -np.inf), 0.0)
    origins, reached = [], []
    for step in potentials:
        origins.append((best[:, None] + step).argmax(axis=0))
        best = (best[:, None] + step).max(axis=0)
        forward = np.logaddexp.reduce(forward[:, None] + step, axis=0)
        best[-1] = forward[-1] = -np.inf  # a tag sequence cannot pass through the outer state
        reached.append(forward)
    tags, scores = [(best + ends).argmax()], []
    for origin in origins[:0:-1]:
        tags.insert(0, origin[tags[0]])
    backward, total = ends.copy(), np.logaddexp.reduce(forward + ends)
    for step, forward, tag in zip(potentials[::-1], reached[::-1], tags[::-1], strict=True):
        scores.insert(0, np.exp(forward[tag] + backward[tag] - total))
        backward[-1] = -np.inf
        backward = np.logaddexp.reduce(step + backward, axis=1)
    return tags, scores
