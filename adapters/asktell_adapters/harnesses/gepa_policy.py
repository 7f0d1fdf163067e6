"""A policy for GEPA: it accepts proposals, chooses their validation examples, the next parent and the best program."""

import hashlib
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Annotated, Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

import asktell
from asktell import PromptResult
from asktell.extend import AbstractMethod, log, whole

Floats: TypeAlias = npt.NDArray[np.float64]
_Facts: TypeAlias = tuple[tuple[tuple[Any, float], ...], ...]
"""The (example, score) pairs of each program."""

_NORMAL = NormalDist()
# A proposal must reach this share of the best expected gain per metric call. Of 0.7,
# 0.85 and 1, the lower two did no harm on any scripted task.
_SHARE = 0.75


@final
class AsktellPolicy:
    """Make some of GEPA's decisions with a statistical model of all scores.

    ```python
    policy = AsktellPolicy(examples=20)
    result = gepa.optimize(
        ..., val_evaluation_policy=policy, candidate_selection_strategy=policy, acceptance_criterion=policy
    )
    print(policy.best_candidate(result))
    ```

    GEPA also calls a candidate a *program*. A *proposal* is a program that an LLM made
    by rewriting another program, its *parent*. GEPA compares the two on a *minibatch*,
    a few training examples. If the proposal is better, GEPA *validates* it: it runs on
    the validation set. A *metric call* is the evaluation of one program on one example.

    Pass the policy to `gepa.optimize` as one or more of these arguments:

    - `val_evaluation_policy`: every program runs on the same few validation examples,
      `examples` of them, drawn at random once. So no program gains from easier
      examples. The best program is the program with the highest mean score as
      estimated by asktell. Exception: GEPA before 0.1.4 runs the first program on all
      validation examples. The estimate is fair in this case, too. A plain average is
      not.
    - `candidate_selection_strategy`: the program to rewrite next is drawn at random.
      The more probable it is that a program is the best, the more often it is drawn.
      This probability depends on the program's
      validation scores, and on its scores in minibatches as a parent.
    - `acceptance_criterion`: a proposal is validated only if it is better than its
      parent on the minibatch, and if its expected gain is worth the metric calls of a
      validation. The expected gain is how much better than its parent the proposal is
      expected to be on new examples. It allows for luck: the more the gains vary
      between examples, the less the gain on the minibatch counts. The expected gain per
      metric call must be nearly as high as for the best proposals so far. This
      criterion needs GEPA 0.1.4 or newer.

    Nothing of the policy has to be saved: if GEPA resumes a run, a new policy with the
    same arguments continues as before.

    Args:
        examples: number of validation examples for each program. None (default): all.
        same_examples: True: the training set is also the validation set. This is the
            case if `gepa.optimize` gets no `valset`, and always in MLflow.
        seed: seed of the order of the examples, and of the draws of parents.
        method: the method of `asktell.Selector` whose estimates are used.

    Raises:
        InvalidArgumentError: `examples` is not a positive whole number, or `seed` is
            negative.
    """

    def __init__(
        self,
        examples: int | None = None,
        *,
        same_examples: bool = False,
        seed: int = 0,
        method: str | AbstractMethod = "auto",
    ) -> None:
        self.examples = None if examples is None else whole("examples", examples, 1)
        self.same_examples = same_examples
        self._seed = whole("seed", seed, 0)
        self._method = method
        self._population = 0
        self._warned = False
        # The last iteration, and how many earlier draws it had.
        self._draws = (-1, 0)

    def get_eval_batch(
        self, loader: Any, state: Any, target_program_idx: int | None = None
    ) -> list[Any]:
        """Return the ids of the validation examples to run a program on, at most `examples`.

        Without `target_program_idx`, they are the examples for a new program. With the
        index of an existing program, they are the next examples of the policy's order
        on which it has not run yet.
        """
        if (
            self.examples
            and not self._warned
            and len(state.prog_candidate_val_subscores[0]) > self.examples
        ):
            self._warned = True
            log.warning(
                "GEPA ran its seed candidate on %d validation examples, but runs the other candidates on %d. Only the "
                "seed has scores on the remaining examples, so GEPA's Pareto front makes it the parent of nearly all "
                "proposals. Use GEPA 0.1.4 or newer, or candidate_selection_strategy='current_best'.",
                len(state.prog_candidate_val_subscores[0]),
                self.examples,
            )
        seen = (
            ()
            if target_program_idx is None
            else state.prog_candidate_val_subscores[target_program_idx]
        )
        return [id_ for id_ in self._order(loader) if id_ not in seen][: self.examples]

    def get_seed_eval_batch(self, loader: Any) -> list[Any]:
        """Return the ids of the validation examples to run the seed candidate on.

        GEPA calls this method from version 0.1.4 on. Older versions run the seed
        candidate on all validation examples.
        """
        return self._order(loader)[: self.examples]

    def get_best_program(self, state: Any) -> int:
        """Return the index of the program with the highest estimated mean score."""
        return _best(self._estimates(state.prog_candidate_val_subscores))

    def get_valset_score(self, program_idx: int, state: Any) -> float:
        """Return the estimated mean score of a program. It is minus infinity for a program without scores."""
        return self._estimates(state.prog_candidate_val_subscores)[program_idx]

    def best_candidate(self, result: Any) -> dict[str, str]:
        """Return the candidate of a `GEPAResult` with the highest estimated mean score.

        GEPA's own `GEPAResult.best_candidate` compares plain averages instead, even if
        they are over different examples.
        """
        return dict(result.candidates[_best(self._estimates(result.val_subscores))])

    def select_candidate_idx(self, state: Any) -> int:
        """Draw the program to rewrite next, more often if it is more probably the best. Return its index."""
        facts: list[dict[Any, float]] = [
            dict(scores) for scores in state.prog_candidate_val_subscores
        ]
        for task in _tasks(state.full_program_trace):
            for id_, score in zip(
                task["subsample_ids"], task["subsample_scores"], strict=True
            ):
                # Ids of training and validation examples may coincide.
                example = id_ if self.same_examples else ("train", id_)
                facts[task["parent_idx"]].setdefault(example, score)
        # An iteration may draw several parents. The count gives each draw of a resumed
        # run its own seed again.
        n_earlier = self._draws[1] + 1 if self._draws[0] == state.i else 0
        self._draws = state.i, n_earlier
        draw = random.Random(f"asktell-gepa-{self._seed}-{self._draws}")
        entries = self._entries(facts)
        weights = [entry.p_best or 0.0 for entry in entries]
        if not any(weights):
            return _best([_mean(entry) for entry in entries])
        return draw.choices(range(len(entries)), weights)[0]

    def should_accept(self, proposal: Any, state: Any) -> bool:
        """Return True if the proposal's gain over its parent is large enough to be worth a validation."""
        gain = _gain(proposal.subsample_scores_before, proposal.subsample_scores_after)
        earlier = [
            _gain(task["subsample_scores"], task["new_subsample_scores"])
            for task in _tasks(state.full_program_trace[:-1])
        ]
        expected = _expected_gains([gain, *earlier], [*earlier, *_validated(state)])
        n_calls = 2 * sum(len(differences) for differences in (gain, *earlier))
        n_validation = len(state.prog_candidate_val_subscores[-1])
        # rates[k - 1] is the expected gain per metric call if the k most promising
        # proposals had been validated. Its maximum is the reward rate of a renewal
        # process, as in Charnov's marginal value theorem (1976).
        best_first = np.sort(expected)[::-1]
        rates = best_first.cumsum() / (
            n_calls + n_validation * np.arange(1, len(expected) + 1)
        )
        return bool(
            gain.mean() > 0 and expected[0] >= _SHARE * n_validation * rates.max()
        )

    def reject_reason(self, proposal: Any, state: Any) -> str:
        """Return the reason of a rejection, for GEPA's log."""
        before = sum(proposal.subsample_scores_before)
        after = sum(proposal.subsample_scores_after)
        return f"Subsample score {before} -> {after} is no gain, or the gain may be luck and not worth a validation"

    def _order(self, loader: Any) -> list[Any]:
        ids = list(loader.all_ids())
        self._population = len(ids)
        # Sorting by a hash of the id keeps the relative order of the examples when
        # others are added.
        return sorted(
            ids,
            key=lambda id_: hashlib.sha256(f"{self._seed} {id_!r}".encode()).digest(),
        )

    def _estimates(self, subscores: Sequence[Mapping[Any, float]]) -> list[float]:
        """Posterior means of the programs. Minus infinity, as in GEPA, for a program without scores."""
        return [_mean(entry) for entry in self._entries(subscores)]

    def _entries(
        self, subscores: Sequence[Mapping[Any, float]]
    ) -> tuple[PromptResult, ...]:
        return _posterior(
            tuple(tuple(scores.items()) for scores in subscores),
            self._population,
            self._method,
        )


@lru_cache(maxsize=4)
def _posterior(
    facts: _Facts, population: int, method: str | AbstractMethod
) -> tuple[PromptResult, ...]:
    """Estimate every program from its scores. `population` is the number of examples in the validation set."""
    place: dict[Any, int] = {}
    for scores in facts:
        for id_, _ in scores:
            place.setdefault(id_, len(place))
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
    """Proposals of a run, with their scores per example. Empty before GEPA 0.1.4, whose traces have another format."""
    tasks = itertools.chain.from_iterable(entry.get("tasks", ()) for entry in trace)
    return (task for task in tasks if "new_subsample_scores" in task)


def _validated(state: Any) -> Iterator[Annotated[Floats, " examples"]]:
    """Gains of each validated program over each parent, on the examples that both ran on."""
    programs = state.prog_candidate_val_subscores
    for scores, parents in zip(
        programs, state.parent_program_for_candidate, strict=True
    ):
        for before in (programs[parent] for parent in parents if parent is not None):
            common = before.keys() & scores.keys()
            if common:
                yield _gain(
                    [before[id_] for id_ in common], [scores[id_] for id_ in common]
                )


def _expected_gains(
    minibatches: Sequence[Annotated[Floats, " examples"]],
    further: Sequence[Annotated[Floats, " examples"]],
) -> Annotated[Floats, " proposals"]:
    """Estimate E[max(gain, 0)] of each proposal given its minibatch, by empirical Bayes (Efron & Morris 1973).

    The model: a proposal's mean gain is Gaussian around 0, and its gains on examples
    are Gaussian around that mean. The method of moments estimates both variances.

    Args:
        minibatches: the gains of each proposal on the examples of its minibatch.
        further: more gains, which help to estimate the variances.

    Returns:
        The expected gain of each proposal of `minibatches`, in score units per example.
    """
    gains = [minibatches[0], *further]
    sizes = np.array([len(proposal_gains) for proposal_gains in gains])
    means = np.array([proposal_gains.mean() for proposal_gains in gains])
    deviations = sum(
        float(((proposal_gains - proposal_gains.mean()) ** 2).sum())
        for proposal_gains in gains
    )
    noise = deviations / max(1, int((sizes - 1).sum()))
    n = np.array([len(minibatch) for minibatch in minibatches])
    seen = np.array([minibatch.mean() for minibatch in minibatches])
    if noise <= 0:
        return seen.clip(min=0.0)
    # The prior guess of the spread of gains is a quarter of the noise variance (half
    # its standard deviation). It counts as much as three proposals. The floor keeps an
    # unlucky start from estimating that all proposals are equally good.
    weights = sizes / (sizes + 4)
    spread = float(
        ((weights * (means**2 - noise / sizes)).sum() + 3 * noise / 4)
        / (weights.sum() + 3)
    )
    spread = max(spread, noise / 20)
    # The posterior of each mean gain is Gaussian with this mean m and standard error e.
    # Then E[max(gain, 0)] = e * pdf(m / e) + m * cdf(m / e).
    mean = seen * spread / (spread + noise / n)
    error = np.sqrt(1 / (1 / spread + n / noise))
    return np.array(
        [
            e * _NORMAL.pdf(m / e) + m * _NORMAL.cdf(m / e)
            for m, e in zip(mean, error, strict=True)
        ]
    )


def _gain(
    before: Sequence[float], after: Sequence[float]
) -> Annotated[Floats, " examples"]:
    """The gain of a proposal on each example."""
    return np.asarray(after, np.float64) - np.asarray(before, np.float64)


def _best(estimates: Sequence[float]) -> int:
    return max(range(len(estimates)), key=estimates.__getitem__)


def _mean(entry: PromptResult) -> float:
    mean = entry.estimate["score"]
    return -math.inf if mean is None or not entry.evaluations else mean
