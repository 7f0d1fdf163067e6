"""Embeddings of prompts: texts to a (K, p) matrix; `asktell.features.pca` reduces it to features."""
