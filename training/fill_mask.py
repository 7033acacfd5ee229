"""Entry point of `bert-keras fill-mask` in a clone: `python -m training.fill_mask`."""

import sys

from bert_keras.errors import quiet
from bert_keras.training.fill_mask import main

if __name__ == "__main__":
    quiet()
    sys.exit(main())
