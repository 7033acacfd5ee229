"""Made-up sentences in scripts without spaces between words."""

from __future__ import annotations

import random

# Words of our own choice: cat, sits, on, mat, and, sleeps, house, dog, runs, plays, rain, water.
WORDS = {
    "thai": "แมว นั่ง บน เสื่อ และ หลับ บ้าน หมา วิ่ง เล่น ฝน น้ำ",
    "lao": "ແມວ ນັ່ງ ເທິງ ສາດ ແລະ ນອນ ເຮືອນ ໝາ ແລ່ນ ຫຼິ້ນ ຝົນ ນ້ຳ",
    "khmer": "ឆ្មា អង្គុយ លើ កន្ទេល និង គេង ផ្ទះ ឆ្កែ រត់ លេង ភ្លៀង ទឹក",
    "burmese": "ကြောင် ထိုင် ပေါ် ဖျာ နှင့် အိပ် အိမ် ခွေး ပြေး ကစား မိုး ရေ",
}


def sentences(count: int, script: str = "thai", length: int = 40) -> list[str]:
    """Return sentences of `length` words without spaces, always the same ones."""
    rng, words = random.Random(0), WORDS[script].split()
    return ["".join(rng.choices(words, k=length)) for _ in range(count)]
