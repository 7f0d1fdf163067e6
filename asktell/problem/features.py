"""Features of prompts: reduction of embeddings to few dimensions, and features of texts without a model."""

import re
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from asktell.errors import InvalidArgumentError
from asktell.numerics import counters
from asktell.numerics.arrays import Floats, Ints
from asktell.numerics.shapes import Float
from asktell.problem.checks import LARGEST
from asktell.problem.words import short

_BUCKETS = 1 << 15
# Number of prompts up to which the spectrum comes from the full (K, K) matrix of inner
# products
_DENSE_ARMS = 256
# A standard deviation below this is rounding: the texts do not differ
_CONSTANT = 1e-12


class PCA(NamedTuple):
    """The principal components of an embedding, from `pca`.

    Attributes:
        features: the coordinates of each prompt in the first d components, shape (K,
            d).
        explained_variance_ratio: for each component its share of the total variance,
            the largest first, shape (d,).
    """

    features: Float[Floats, "arms features"]
    explained_variance_ratio: Floats


def pca(embedding: npt.ArrayLike, d: int) -> PCA:
    """Reduce an embedding to its first d principal components.

    The sign of a component is arbitrary. It is chosen so that the entry with the
    largest absolute value is positive. Components beyond the rank of the embedding are
    zero.

    Args:
        embedding: a row of numbers for each of the K prompts, shape (K, p).
        d: the number of components, at least 1.

    Raises:
        InvalidArgumentError: d is below 1, or `embedding` is not a table of finite
            numbers.
    """
    x = _matrix(embedding)
    if d < 1:
        raise InvalidArgumentError(
            f"pca() got d={d}. The number of dimensions must be at least 1."
        )
    centred = x - x.mean(axis=0) if len(x) else x
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    width = min(d, len(s))
    features = np.zeros((len(x), d))
    features[:, :width] = fix_signs(u[:, :width]) * s[:width]
    ratio = np.zeros(d)
    total = float((s**2).sum())
    if total > 0:
        ratio[:width] = s[:width] ** 2 / total
    return PCA(features, ratio)


def fix_signs(
    columns: Float[Floats, "arms features"],
) -> Float[Floats, "arms features"]:
    """The columns, each with the sign that makes its entry of the largest magnitude positive."""
    if not columns.size:
        return columns
    largest = columns[np.abs(columns).argmax(axis=0), np.arange(columns.shape[1])]
    signed: Float[Floats, "arms features"] = columns * np.where(largest < 0, -1.0, 1.0)
    return signed


def text_features(
    prompts: Sequence[str], d: int = 10, seed: int = 0
) -> Float[Floats, "arms features"]:
    """Features of the prompts' texts, computed without a model or a network.

    In each text, short sequences of characters (3 to 5 bytes of UTF-8) and of words (1
    or 2) are counted. A count tf has the weight (1 + log tf) * idf, where idf is larger
    for sequences that few of the texts have. Each text's weights are scaled to a length
    of 1. All texts together are then reduced to d - 1 principal components. These are
    divided by the standard deviation of the first component, so the first has a
    variance of 1 and the later components have less. The last feature is the logarithm
    of the length of the text, with a mean of 0 and a variance of 1.

    The same texts have the same features in every process.

    Args:
        prompts: the texts of the K prompts.
        d: the number of features, at least 1.
        seed: chooses the hash function, which assigns each sequence to one of 32,768
            columns of counts.

    Returns:
        The features, shape (K, d). Missing components are 0, for example if there are
        fewer texts than features.

    Raises:
        InvalidArgumentError: d is below 1.
    """
    if d < 1:
        raise InvalidArgumentError(
            f"text_features() got d={d}. The number of dimensions must be at least 1."
        )
    features = np.zeros((len(prompts), d))
    if not len(prompts):
        return features
    length = np.log1p(np.array([len(prompt) for prompt in prompts], dtype=float))
    if length.std() > _CONSTANT:
        features[:, -1] = (length - length.mean()) / length.std()
    if d > 1:
        components = _principal_components(_rows(prompts, seed), d - 1)
        scale = components[:, 0].std() if components.size else 0.0
        if scale > _CONSTANT:
            features[:, : components.shape[1]] = components / scale
    return features


def _rows(prompts: Sequence[str], seed: int) -> Any:
    """Sparse (K, buckets) rows of unit length: the weighted counts of each text's n-grams."""
    from scipy.sparse import csr_array

    counted = [
        np.unique(_grams(prompt.lower(), seed), return_counts=True)
        for prompt in prompts
    ]
    n, lengths = len(counted), [len(buckets) for buckets, _ in counted]
    column = np.concatenate([buckets for buckets, _ in counted])
    # Inverse document frequency: an n-gram that few texts have weighs more.
    n_texts = np.bincount(column, minlength=_BUCKETS)
    weights = np.log((1.0 + n) / (1.0 + n_texts)) + 1.0
    times = np.concatenate([counts for _, counts in counted])
    value = (1.0 + np.log(times)) * weights[column]
    row = np.repeat(np.arange(n), lengths)
    norm = np.sqrt(np.bincount(row, value**2, minlength=n))
    value /= np.where(norm > 0, norm, 1.0)[row]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    return csr_array((value, column, starts), shape=(n, _BUCKETS))


def _grams(text: str, seed: int) -> Ints:
    """Buckets of the n-grams of a text: n-grams of its bytes, with a space at each end, and n-grams of its words."""
    raw = np.frombuffer(
        f" {text} ".encode("utf-8", "surrogatepass"), dtype=np.uint8
    ).astype(np.uint64)
    keys = []
    with np.errstate(over="ignore"):
        for n in (3, 4, 5):
            if len(raw) >= n:
                key = np.full(len(raw) - n + 1, n, dtype=np.uint64)
                for offset in range(n):
                    key = key * np.uint64(257) + raw[offset : len(raw) - n + 1 + offset]
                keys.append(key)
        words = np.array(
            [zlib.crc32(word.encode()) for word in re.findall(r"\w+", text)],
            dtype=np.uint64,
        )
        keys.append(words)
        keys.append(words[:-1] * np.uint64(0x9E3779B97F4A7C15) + words[1:])
    return (
        counters.bits(seed, "text features", np.concatenate(keys)) % np.uint64(_BUCKETS)
    ).astype(np.int64)


def _principal_components(x: Any, d: int) -> Float[Floats, "arms features"]:
    """The first min(d, K) principal components of the sparse rows. The rows are never made dense together."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    n = x.shape[0]
    mean_row = np.asarray(x.mean(axis=0)).ravel()
    if n <= max(_DENSE_ARMS, 2 * d):
        centred = x.toarray() - mean_row
        values, vectors = np.linalg.eigh(centred @ centred.T)
    else:
        transposed = x.T.tocsr()

        def inner_products(v: Float[Floats, " arms"]) -> Float[Floats, " arms"]:
            right = transposed @ v - mean_row * v.sum()
            product: Float[Floats, " arms"] = x @ right - mean_row @ right
            return product

        # A fixed start makes the Lanczos iterations the same in every process.
        start = (
            counters.bits(0, "Lanczos start", np.arange(n)) >> np.uint64(11)
        ).astype(float) / 2**53 - 0.5
        values, vectors = eigsh(
            LinearOperator((n, n), matvec=inner_products, dtype=float),
            k=d,
            v0=start,
            tol=1e-9,
        )
    top = np.argsort(values)[::-1][:d]
    components: Float[Floats, "arms features"] = fix_signs(vectors[:, top]) * np.sqrt(
        np.maximum(values[top], 0.0)
    )
    return components


def _matrix(values: npt.ArrayLike) -> Float[Floats, "arms features"]:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise InvalidArgumentError(
            f"Features must be finite numbers, in one row per prompt. Got an array of the shape {x.shape}, in which "
            f"{int(np.isfinite(x).sum())} of {x.size} numbers are finite."
        )
    return x


def check_features(
    features: npt.ArrayLike, n_arms: int
) -> Float[Floats, "arms features"]:
    """Return the features as a read-only array of finite floats."""
    try:
        matrix = np.array(features, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"features must be numbers, in one row per prompt, all of the same length. Got {short(features)}."
        ) from error
    if matrix.ndim != 2 or len(matrix) != n_arms or matrix.shape[1] == 0:
        raise InvalidArgumentError(
            f"features must have {n_arms} rows, one for each prompt, and at least one column. Got the shape "
            f"{matrix.shape}."
        )
    bad = np.argwhere(~(np.abs(matrix) <= LARGEST))
    if len(bad):
        row, column = bad[0].tolist()
        raise InvalidArgumentError(
            f"features must be numbers from -{LARGEST} to {LARGEST}. Got {matrix[row, column]} in row {row}, "
            f"column {column}. Rows and columns count from 0."
        )
    matrix.flags.writeable = False
    return matrix
