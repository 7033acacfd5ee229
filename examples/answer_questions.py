"""Answer questions: python -m examples.answer_questions train.json  (a file in SQuAD's format)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product

import bert_keras as bk
from bert_keras.data import read_squad
from examples import program


def made_up() -> str:
    """Return a file in SQuAD's format, with questions about where people live."""
    paragraphs = []
    for name, city in product(("Anna", "Paul", "Mia"), ("Rome", "Oslo", "Lima")):
        answer = {"text": city, "answer_start": len(f"{name} lives in ")}
        question = {"id": name + city, "question": f"Where is {name}?", "answers": [answer]}
        paragraphs.append({"context": f"{name} lives in {city}.", "qas": [question]})
    return json.dumps({"data": [{"title": "Cities", "paragraphs": paragraphs}]})


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a model, and print its answer to the first question of the file."""
    asked = program.arguments(__doc__, arguments, data="train.json", model="bert_base_uncased")
    if asked.quick:
        asked.data = program.file("train.json", [made_up()])
        asked.model = program.model(["Where is Anna Paul Mia? lives in Rome Oslo Lima."])
    questions, report = read_squad(asked.data)
    print(report)
    x = [item.question for item in questions], [item.context for item in questions]
    y = [(item.answers[0].text, item.answers[0].start) for item in questions]
    model = bk.QuestionAnswerer.from_preset(asked.model, new_head=True)
    epochs = 20 if asked.quick else 2
    model.fit(x, y, epochs=epochs, max_length=384, learning_rate=asked.rate, verbose=2)
    answer = model.predict_answers(x[0][:1], x[1][:1])[0]
    print(f"{x[0][0]} {answer.text!r}, characters {answer.start} to {answer.end}")
    model.save_to_preset("question_answerer")


if __name__ == "__main__":
    main()
