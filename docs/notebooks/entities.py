# %% [markdown]
# # Entities: find names in texts
#
# A token classifier gives a tag to each word: `B-PER` begins a person, `I-PER` continues it, `O` is outside of any name.
# This notebook trains one on made-up sentences, and tests it with names that it never saw. It runs on a CPU in less than
# a minute.

# %%
import random

import keras

import bert_keras as bk
from bert_keras import metrics

keras.utils.set_random_seed(0)

# %% [markdown]
# ## Words and tags
#
# A sentence is a list of words, and each word has a tag. The names below come from random syllables, so nearly every
# sentence has new ones. The model cannot learn them by heart: it must learn where names stand.

# %%
patterns = [
    ("{} lives in {} .", "PER", "LOC"),
    ("{} works for {} .", "PER", "ORG"),
    ("{} opened an office in {} .", "ORG", "LOC"),
    ("yesterday {} flew to {} .", "PER", "LOC"),
    ("{} sold its factory to {} .", "ORG", "ORG"),
    ("{} met {} .", "PER", "PER"),
    ("people in {} like {} .", "LOC", "PER"),
]
syllables = ["ba", "ko", "li", "ne", "ra", "su", "ti", "vo", "ma", "do", "fe", "zu"]


def sentence(draw: random.Random) -> tuple[list[str], list[str]]:
    """Return the words and tags of a random sentence."""
    pattern, *kinds = draw.choice(patterns)
    words, tags = [], []
    names = iter(kinds)
    for word in pattern.split():
        if word != "{}":
            words.append(word)
            tags.append("O")
            continue
        kind = next(names)
        for number in range(draw.choice([1, 2])):
            words.append("".join(draw.choices(syllables, k=draw.choice([2, 3]))).capitalize())
            tags.append(f"{'I' if number else 'B'}-{kind}")
    return words, tags


draw = random.Random(0)
words, tags = zip(*[sentence(draw) for _ in range(1_000)], strict=True)
for word, tag in zip(words[0], tags[0], strict=True):
    print(f"{word:10} {tag}")

# %% [markdown]
# ## Train
#
# A name that is not in the vocabulary becomes several pieces. The tag of a word is that of its first piece.

# %%
tokenizer = bk.Tokenizer.train([[" ".join(sentence) for sentence in words]], vocab_size=200)
print(tokenizer.encode(" ".join(words[0])).tokens)

labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"]
config = bk.PRESETS["bert_tiny_uncased"].replace(
    vocab_size=tokenizer.vocab_size, hidden_size=64, intermediate_size=128, initializer_range=0.1
)
tagger = bk.TokenClassifier(bk.BertEncoder(config), labels=labels, tokenizer=tokenizer)
history = tagger.fit(
    words, tags, validation_split=0.1, epochs=6, batch_size=16, learning_rate=3e-3, verbose=2
)

# %% [markdown]
# ## Measure
#
# An entity counts as found if its type, its first and its last word are right. These are the scores of CoNLL-2003.

# %%
draw = random.Random(1)
test_words, test_tags = zip(*[sentence(draw) for _ in range(200)], strict=True)
answers = tagger.predict_tags(test_words)  # a tag and its probability for each word
predicted = [[tag.label for tag in sentence] for sentence in answers]
scores = metrics.entity_scores(test_tags, predicted)
for kind in ("PER", "LOC", "ORG"):
    print(f"{kind} F1 {scores[f'{kind}_f1']:.3f} of {scores[f'{kind}_support']:.0f}")
print(f"all F1 {scores['f1']:.3f}")

# %% [markdown]
# ## Find entities in text
#
# `predict_entities` takes plain text. It returns the characters of each name, so that a program can mark them.

# %%
texts = [
    "Yesterday Kolima flew to Suzudo.",
    "Bako Vone works for Tiramasu.",
    "Mafera sold its factory to Lidozu.",
]
for text in texts:
    for entity in tagger.predict_entities(text):
        assert text[entity.start : entity.end] == entity.text
        print(f"{entity.label} {entity.start:2}-{entity.end:2} {entity.score:.2f}  {entity.text}")

# %% [markdown]
# The same name has another type in another place, because the model reads the words around it:

# %%
for text in [
    "Kolima lives in Suzudo.",
    "People in Kolima like Suzudo.",
    "Kolima sold its factory to Bako.",
]:
    print([(entity.text, entity.label) for entity in tagger.predict_entities(text)])

# %% [markdown]
# For real names, fine-tune published weights on a file of tagged words:
#
# ```bash
# bert-keras finetune conll2003 train=train.conll dev=dev.conll encoder=bert_base_cased
# ```
#
# [Fine-tuning](../finetuning.md) describes the file, the schemes of tags and a conditional random field.
