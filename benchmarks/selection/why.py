"""The pictures of docs/explanation/auto.md: why pairing and pooling work. `python -m benchmarks.selection.why`.

Simulated scores, the same in every run: 100 prompts and 300 examples whose shares of
variance are those of strong models (prompt 5 %, example 60 %, residual 35 %).
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asktell.numerics.cells import Cells
from asktell.posterior.two_way import posterior
from benchmarks.problems.table import Array

IMAGES = Path(__file__).parents[2] / "docs" / "images"
K, N = 100, 300
SHARES = (0.05, 0.60, 0.35)


def table(rng: np.random.Generator, k: int = K) -> Array:
    """(k, N) scores, centred at 0.5, with a standard deviation of 0.2."""
    a, b, e = 0.2 * np.sqrt(SHARES)
    return np.asarray(
        0.5
        + a * rng.normal(size=(k, 1))
        + b * rng.normal(size=(1, N))
        + e * rng.normal(size=(k, N)),
        dtype=np.float64,
    )


def pairing(ax: Axes) -> None:
    """The error of an estimated difference of two prompts, by how their examples are chosen."""
    rng = np.random.default_rng(0)
    counts = np.unique(np.geomspace(1, 100, 20).astype(int))
    errors = np.zeros((2, len(counts)))
    repetitions = 400
    for _ in range(repetitions):
        y = table(rng, 2)
        truth = y[0].mean() - y[1].mean()
        order_a, order_b = rng.permutation(N), rng.permutation(N)
        for column, n in enumerate(counts):
            errors[0, column] += (
                y[0, order_a[:n]].mean() - y[1, order_b[:n]].mean() - truth
            ) ** 2
            errors[1, column] += (
                y[0, order_a[:n]].mean() - y[1, order_a[:n]].mean() - truth
            ) ** 2
    for row, label in zip(
        np.sqrt(errors / repetitions),
        ("each its own examples", "the same examples"),
        strict=True,
    ):
        ax.plot(counts, row, label=label)
    spread = 0.2 * np.sqrt(2 * SHARES[0])
    ax.axhline(spread, color="0.6", linewidth=0.8, linestyle="--")
    ax.text(
        counts[0],
        spread,
        "typical difference of two prompts",
        fontsize=7,
        va="bottom",
        color="0.4",
    )
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="evaluations of each prompt",
        ylabel="error of the difference (rms)",
    )
    ax.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
    ax.set_yticks([0.01, 0.03, 0.1, 0.3], [".01", ".03", ".1", ".3"])
    ax.minorticks_off()
    ax.set_title("pairing", fontsize=10)
    ax.legend(fontsize=7, loc="upper right")


def pooling(ax: Axes) -> None:
    """Estimates after three evaluations per prompt against the truth: raw means and the posterior's."""
    rng = np.random.default_rng(1)
    y = table(rng)
    truth = y.mean(axis=1)
    arms, examples = np.repeat(np.arange(K), 3), np.tile(rng.permutation(N)[:3], K)
    scores = y[arms, examples]
    raw = scores.reshape(K, 3).mean(axis=1)
    # Common examples shift all means alike; what is compared is who is ahead of whom.
    raw = raw - raw.mean() + truth.mean()
    fit = posterior(Cells.of(arms, examples, scores[:, None], N), 0, K, N)
    pooled = fit.mean - fit.mean.mean() + truth.mean()
    low, high = truth.min() - 0.01, truth.max() + 0.01
    ax.plot([low, high], [low, high], color="0.7", linewidth=0.8)
    for estimates, marker, label in (
        (raw, "x", "means of three scores"),
        (pooled, "o", "pooled"),
    ):
        error = np.sqrt(((estimates - truth) ** 2).mean())
        ax.plot(
            truth,
            estimates,
            marker,
            markersize=3,
            linestyle="",
            label=f"{label}: rms error {error:.3f}",
        )
        circled = "the highest estimate" if marker == "o" else None
        at = truth[estimates.argmax()], estimates.max()
        ax.plot(
            *at,
            "o",
            markersize=9,
            fillstyle="none",
            linestyle="",
            color="black",
            label=circled,
        )
    ax.set(
        xlabel="true mean of a prompt",
        ylabel="estimate, less the common shift",
        ylim=(0.15, 0.72),
    )
    ax.set_title("pooling", fontsize=10)
    ax.legend(fontsize=7, loc="lower right")


def main() -> None:
    """Draw both pictures into docs/images."""
    mpl.use("Agg")
    for name, draw in (("auto-pairing", pairing), ("auto-pooling", pooling)):
        figure = Figure(figsize=(4.6, 3.4), layout="constrained")
        draw(figure.subplots())
        figure.savefig(IMAGES / f"{name}.png", dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
