"""Embeddings of prompts: texts to a (K, p) matrix; `asktell.problem.features.pca` reduces it to features."""
