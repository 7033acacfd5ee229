"""Pictures of a model: attention, sentence vectors, and the tokens behind a label.

Each function returns a picture. A picture shows itself in a notebook, and `save` writes it as one
HTML file, or as PNG or SVG.
"""

from bert_keras.visualize.attention_view import AttentionPicture, attention
from bert_keras.visualize.embedding_map import EmbeddingMap, embeddings
from bert_keras.visualize.picture import Picture
from bert_keras.visualize.token_saliency import SaliencyPicture, saliency

__all__ = [
    "AttentionPicture",
    "EmbeddingMap",
    "Picture",
    "SaliencyPicture",
    "attention",
    "embeddings",
    "saliency",
]
