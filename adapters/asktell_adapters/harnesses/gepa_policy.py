"""A GEPA policy: which proposals are accepted, what they are validated on, and which program is rewritten or best."""

import hashlib
import itertools
import logging
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

import asktell
from asktell import PromptResult
from asktell.extend import Method, whole

_log = logging.getLogger("asktell")

_Facts: TypeAlias = tuple[tuple[tuple[Any, float], ...], ...]
"""The (example, score) pairs of each program."""

_NORMAL = NormalDist()
_SHARE = 0.75  # of the best rate: of 0.7, 0.85 and 1, the lower ones did no harm on any scripted task


@final
class AsktellPolicy:
    """Makes GEPA's decisions by a model of all scores: `gepa.optimize` takes it in three places, in any combination.

    - `val_evaluation_policy`: new candidates run on `examples` validation examples instead of all. All run on the same
      ones, the first of a seeded order, so that easy examples favour nobody. The best program is chosen by a posterior
      over candidates and examples (the method `auto`), which allows for candidates that ran on other examples, and for
      luck.
    - `candidate_selection_strategy`: the program to rewrite is drawn by its probability of being the best, given its
      validation scores and those it had as a parent of earlier proposals. GEPA's own strategies go by averages, and its
      Pareto front by single examples, where luck is largest.
    - `acceptance_criterion`: a proposal that GEPA would accept is accepted if its validation is expected to gain nearly
      as much per metric call as the best of the proposals so far. The expected gain is shrunk by the noise in all gains
      so far, of minibatches and of validations. So luck is refused where a validation costs much, and little else is.

    All state is in GEPA's, so a resumed run continues as before.

    Args:
        examples: validation examples per candidate; None: all.
        same_examples: the training set is also the validation set, as where `gepa.optimize` is given no `valset`, and
            always in MLflow.
        seed: seed of the examples' order and of the draws.
        method: the method whose posterior ranks candidates.
    """

    def __init__(
        self, examples: int | None = None, *, same_examples: bool = False, seed: int = 0, method: str | Method = "auto"
    ) -> None:
        self.examples = None if examples is None else whole("examples", examples, 1)
        self.same_examples = same_examples
        self._seed = whole("seed", seed, 0)
        self._method = method
        self._population = 0
        self._warned = False
        self._draws = (-1, 0)  # the iteration, and the parents drawn in it

    def get_eval_batch(self, loader: Any, state: Any, target_program_idx: int | None = None) -> list[Any]:
        """Validation ids for a new candidate, or the next ones for a candidate of the pool."""
        if self.examples and not self._warned and len(state.prog_candidate_val_subscores[0]) > self.examples:
            self._warned = True
            _log.warning(
                "GEPA ran its seed on %d validation examples, and runs the others on %d. On the rest the seed has no "
                "rival, so that its Pareto front makes the seed the parent of nearly all. Use GEPA 0.1.4 or newer, or "
                "candidate_selection_strategy='current_best'.",
                len(state.prog_candidate_val_subscores[0]),
                self.examples,
            )
        seen = () if target_program_idx is None else state.prog_candidate_val_subscores[target_program_idx]
        return [id_ for id_ in self._order(loader) if id_ not in seen][: self.examples]

    def get_seed_eval_batch(self, loader: Any) -> list[Any]:
        """Validation ids for the seed candidate, in versions of GEPA that ask; others run it on all."""
        return self._order(loader)[: self.examples]

    def get_best_program(self, state: Any) -> int:
        return _best(self._estimates(state.prog_candidate_val_subscores))

    def get_valset_score(self, program_idx: int, state: Any) -> float:
        return self._estimates(state.prog_candidate_val_subscores)[program_idx]

    def best_candidate(self, result: Any) -> dict[str, str]:
        """The best candidate of a `GEPAResult`, whose own goes by plain averages over whatever examples."""
        return dict(result.candidates[_best(self._estimates(result.val_subscores))])

    def select_candidate_idx(self, state: Any) -> int:
        """The program to rewrite next, drawn by its probability of being the best."""
        facts: list[dict[Any, float]] = [dict(scores) for scores in state.prog_candidate_val_subscores]
        for task in _tasks(state.full_program_trace):
            for id_, score in zip(task["subsample_ids"], task["subsample_scores"], strict=True):
                facts[task["parent_idx"]].setdefault(id_ if self.same_examples else ("train", id_), score)
        self._draws = state.i, self._draws[1] + 1 if self._draws[0] == state.i else 0
        draw = random.Random(f"asktell-gepa-{self._seed}-{self._draws}")
        entries = self._entries(facts)
        weights = [entry.p_best or 0.0 for entry in entries]
        if not any(weights):
            return _best([_mean(entry) for entry in entries])
        return draw.choices(range(len(entries)), weights)[0]

    def should_accept(self, proposal: Any, state: Any) -> bool:
        """True if the proposal is ahead of its parent by enough to pay for its validation."""
        gain = _gain(proposal.subsample_scores_before, proposal.subsample_scores_after)
        earlier = [_gain(*scores) for scores in _minibatches(state)]
        expected = _expected_gains([gain, *earlier], [*earlier, *_validated(state)])
        n_calls = 2 * sum(len(each) for each in (gain, *earlier))
        n_validation = len(state.prog_candidate_val_subscores[-1])
        # The highest rate at which proposals could have gained, had the k most promising been validated, for some k;
        # the reward rate of a renewal process, as in Charnov's marginal value theorem.
        best_first = np.sort(expected)[::-1]
        rates = best_first.cumsum() / (n_calls + n_validation * np.arange(1, len(expected) + 1))
        return bool(gain.mean() > 0 and expected[0] >= _SHARE * n_validation * rates.max())

    def reject_reason(self, proposal: Any, state: Any) -> str:
        before, after = sum(proposal.subsample_scores_before), sum(proposal.subsample_scores_after)
        return f"Subsample score {before} -> {after} is no gain, or too likely luck to pay for a validation"

    def _order(self, loader: Any) -> list[Any]:
        ids = list(loader.all_ids())
        self._population = len(ids)
        # By a hash of its own, so that an example keeps its place when others are added.
        return sorted(ids, key=lambda id_: hashlib.sha256(f"{self._seed} {id_!r}".encode()).digest())

    def _estimates(self, subscores: Sequence[Mapping[Any, float]]) -> list[float]:
        """Posterior means of the programs; minus infinity, as in GEPA, for one without scores."""
        return [_mean(entry) for entry in self._entries(subscores)]

    def _entries(self, subscores: Sequence[Mapping[Any, float]]) -> tuple[PromptResult, ...]:
        return _posterior(tuple(tuple(scores.items()) for scores in subscores), self._population, self._method)


@lru_cache(maxsize=4)
def _posterior(facts: _Facts, population: int, method: str | Method) -> tuple[PromptResult, ...]:
    place = {id_: i for i, id_ in enumerate(dict.fromkeys(id_ for scores in facts for id_, _ in scores))}
    n_examples = max(1, len(place), population)
    selector = asktell.Selector(
        [f"program {i}" for i in range(len(facts))],
        asktell.BestFeasible("score"),
        len(facts) * n_examples,
        method,
        examples=n_examples,
    )
    for program, scores in enumerate(facts):
        for id_, score in scores:
            if math.isfinite(score):
                selector.observe(program, [score], place[id_])
    return tuple(selector.result().prompts)


def _tasks(trace: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The proposals of a run, with their scores by example; none before GEPA 0.1.4, which kept them otherwise."""
    tasks = itertools.chain.from_iterable(entry.get("tasks", ()) for entry in trace)
    return (task for task in tasks if "new_subsample_scores" in task)


def _minibatches(state: Any) -> Iterator[tuple[Sequence[float], Sequence[float]]]:
    return ((task["subsample_scores"], task["new_subsample_scores"]) for task in _tasks(state.full_program_trace[:-1]))


def _validated(state: Any) -> Iterator[npt.NDArray[np.float64]]:
    """Gains of each validated program over its parents, on the examples that both ran on."""
    programs = state.prog_candidate_val_subscores
    for scores, parents in zip(programs, state.parent_program_for_candidate, strict=True):
        for before in (programs[parent] for parent in parents if parent is not None):
            if common := before.keys() & scores.keys():
                yield _gain([before[id_] for id_ in common], [scores[id_] for id_ in common])


def _expected_gains(
    minibatches: Sequence[npt.NDArray[np.float64]], others: Sequence[npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64]:
    """E[max(gain, 0)] of each proposal given its minibatch, by empirical Bayes (Efron & Morris 1973).

    A proposal's mean gain is Gaussian around 0, the gains on its examples around that; both variances are of moments.
    """
    gains = [minibatches[0], *others]
    sizes, means = np.array([len(each) for each in gains]), np.array([each.mean() for each in gains])
    deviations = sum(float(((each - each.mean()) ** 2).sum()) for each in gains)
    noise = deviations / max(1, int((sizes - 1).sum()))
    n, seen = np.array([len(each) for each in minibatches]), np.array([each.mean() for each in minibatches])
    if noise <= 0:
        return seen.clip(min=0.0)
    # Half the noise of an example is the first guess of the spread of gains; it counts as three proposals. The floor
    # keeps an unlucky beginning from ending in the belief that no proposal is better than any other.
    weights = sizes / (sizes + 4)
    spread = float(((weights * (means**2 - noise / sizes)).sum() + 3 * noise / 4) / (weights.sum() + 3))
    spread = max(spread, noise / 20)
    mean, error = seen * spread / (spread + noise / n), np.sqrt(1 / (1 / spread + n / noise))
    return np.array([e * _NORMAL.pdf(m / e) + m * _NORMAL.cdf(m / e) for m, e in zip(mean, error, strict=True)])


def _gain(before: Sequence[float], after: Sequence[float]) -> npt.NDArray[np.float64]:
    return np.asarray(after, np.float64) - np.asarray(before, np.float64)


def _best(estimates: Sequence[float]) -> int:
    return max(range(len(estimates)), key=estimates.__getitem__)


def _mean(entry: PromptResult) -> float:
    mean = entry.estimate["score"]
    return -math.inf if mean is None or not entry.evaluations else mean
