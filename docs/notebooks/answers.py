# %% [markdown]
# # Answers: find them in a text
#
# A `QuestionAnswerer` reads a question and a context, and marks the part of the context that answers the question. This
# notebook trains one from random weights on made-up facts. It runs on a CPU in about a minute.

# %%
import random

import keras
import matplotlib.pyplot as plt

import bert_keras as bk
from bert_keras import metrics

keras.utils.set_random_seed(0)

# %% [markdown]
# ## Questions, contexts, answers
#
# Each context has three facts about three people. The question names one person, so the model has to find the sentence
# of that person first. Some questions have no answer in the context: their answer is `""`.

# %%
people = ["anna", "paul", "mia", "omar", "lena", "hugo", "nora", "ivan"]
cities = ["rome", "oslo", "lima", "cairo", "paris", "delhi", "quito", "tokyo"]


def example(draw: random.Random) -> tuple[str, str, str]:
    """Return a question, a context and the answer."""
    names = draw.sample(people, 4)
    places = draw.sample(cities, 3)
    facts = [
        f"{name.capitalize()} lives in {place.capitalize()}."
        for name, place in zip(names, places, strict=False)  # the fourth has no fact
    ]
    asked = draw.choice([0, 1, 2, 0, 1, 2, 3])  # 3: a person without a fact
    answer = places[asked].capitalize() if asked < 3 else ""
    return f"Where does {names[asked].capitalize()} live?", " ".join(facts), answer


draw = random.Random(0)
questions, contexts, answers = zip(*[example(draw) for _ in range(3_000)], strict=True)
print(questions[0], "|", contexts[0], "|", answers[0])

# %% [markdown]
# ## Train

# %%
tokenizer = bk.Tokenizer.train([[*questions[:200], *contexts[:200]]], vocab_size=90)
config = bk.PRESETS["bert_tiny_uncased"].replace(
    vocab_size=tokenizer.vocab_size,
    hidden_size=64,
    intermediate_size=128,
    num_heads=4,
    max_positions=64,
    initializer_range=0.1,
    dropout=0.0,
    attention_dropout=0.0,
)
model = bk.QuestionAnswerer(bk.BertEncoder(config), tokenizer=tokenizer)
history = model.fit(
    (questions, contexts),
    answers,
    validation_split=0.1,
    epochs=16,
    batch_size=32,
    learning_rate=2e-3,
    max_length=64,
    verbose=0,
)

# %%
figure, axes = plt.subplots(figsize=(6, 3))
epochs = range(1, len(history.epoch) + 1)
axes.plot(epochs, history.history["start_accuracy"], marker="o", label="training")
axes.plot(epochs, history.history["val_start_accuracy"], marker="o", label="validation")
axes.axhline(0.25, color="grey", linestyle="--", label="a guess")
axes.set(xlabel="epoch", ylabel="accuracy of the first token")
axes.legend()
plt.show()

# %% [markdown]
# For some epochs the model guesses one of the three cities, or no answer. Then the accuracy jumps: an attention head has
# learned to look for the name of the question.

# %% [markdown]
# ## Measure
#
# The score of a question is the better of two: the exact answer, or the words that it shares with the right one. The
# names and cities of the test are the same, but their combinations are new.

# %%
draw = random.Random(1)
test_questions, test_contexts, test_answers = zip(*[example(draw) for _ in range(200)], strict=True)
found = model.predict_answers(test_questions, test_contexts, null_threshold=0.0)
right = {str(i): ([answer] if answer else []) for i, answer in enumerate(test_answers)}
scores = metrics.squad_scores(
    right.items(), {str(i): answer.text for i, answer in enumerate(found)}
)
print({name: round(value, 1) for name, value in scores.items() if name.endswith("exact")})

# %% [markdown]
# ## Ask
#
# The answer has the characters of its place in the context, and a probability.

# %%
context = "Omar lives in Cairo. Lena lives in Quito. Mia lives in Delhi."
for question in ["Where does Lena live?", "Where does Omar live?", "Where does Hugo live?"]:
    answer = model.predict_answers(question, context, null_threshold=0.0)
    marked = f"{context[: answer.start]}[{answer.text}]{context[answer.end :]}"
    print(f"{question}  {marked if answer.text else 'no answer'}  {answer.score:.2f}")

# %% [markdown]
# Nobody said where Hugo lives, and the model answers "". The logit of no answer is then larger than that of the best
# place by more than `null_threshold`. Without this argument the model always answers, however unsure it is:

# %%
for threshold in (None, 0.0, 100.0):
    answer = model.predict_answers("Where does Hugo live?", context, null_threshold=threshold)
    print(threshold, repr(answer.text), f"{answer.score:.2f}", f"{answer.null_score:.1f}")

# %% [markdown]
# A context may be longer than the model: `predict_answers` reads it in overlapping parts. Fine-tuning on SQuAD needs one
# command:
#
# ```bash
# bert-keras finetune squad train=train-v1.1.json dev=dev-v1.1.json encoder=bert_base_uncased
# ```
