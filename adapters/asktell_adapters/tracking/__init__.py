"""Track selections in MLflow, Weights & Biases or a log: callbacks for `asktell.run(..., on_tell=...)`."""
