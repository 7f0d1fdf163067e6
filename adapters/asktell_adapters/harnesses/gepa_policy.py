"""A GEPA policy that chooses the validation examples of new candidates, and the best candidate."""

import hashlib
import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import asktell
from asktell import PromptResult
from asktell.extend import Method, whole

_log = logging.getLogger("asktell")


@final
class AsktellPolicy:
    """A GEPA `EvaluationPolicy` that runs new candidates on some validation examples instead of all.

    All candidates run on the same examples, the first of a seeded order, so that easy examples favour nobody. The best
    program is chosen by a posterior over candidates and examples (the method `auto`), which allows for candidates that
    ran on other examples, and for luck.

    All state is in GEPA's, so a resumed run continues as before.

    Args:
        examples: validation examples per candidate.
        seed: seed of their order.
        method: the method whose posterior ranks candidates.

    Raises:
        InvalidArgumentError: `examples` is not a whole number of at least 1.
    """

    def __init__(self, examples: int, *, seed: int = 0, method: str | Method = "auto") -> None:
        self.examples = whole("examples", examples, 1)
        self._seed = whole("seed", seed, 0)
        self._method = method
        self._population = 0
        self._warned = False
        self._known: tuple[Any, list[float]] | None = None

    def get_eval_batch(self, loader: Any, state: Any, target_program_idx: int | None = None) -> list[Any]:
        """Validation ids for a new candidate, or the next ones for a candidate of the pool."""
        if not self._warned and len(state.prog_candidate_val_subscores[0]) > self.examples:
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
        """The program with the best estimate so far."""
        return _best(self._estimates(state.prog_candidate_val_subscores))

    def get_valset_score(self, program_idx: int, state: Any) -> float:
        """The estimate of the program's mean over the validation set."""
        return self._estimates(state.prog_candidate_val_subscores)[program_idx]

    def best_candidate(self, result: Any) -> dict[str, str]:
        """The best candidate of a `GEPAResult`, whose own goes by plain averages over whatever examples."""
        return dict(result.candidates[_best(self._estimates(result.val_subscores))])

    def _order(self, loader: Any) -> list[Any]:
        ids = list(loader.all_ids())
        self._population = len(ids)
        # By a hash of its own, so that an example keeps its place when others are added.
        return sorted(ids, key=lambda id_: hashlib.sha256(f"{self._seed} {id_!r}".encode()).digest())

    def _estimates(self, subscores: Sequence[Mapping[Any, float]]) -> list[float]:
        """Posterior means of the programs; minus infinity, as in GEPA, for one without scores."""
        facts = tuple(tuple(scores.items()) for scores in subscores)
        if self._known is None or self._known[0] != facts:
            ids = dict.fromkeys(itertools.chain.from_iterable(subscores))
            place = {id_: i for i, id_ in enumerate(ids)}
            n_examples = max(1, len(place), self._population)
            selector = asktell.Selector(
                [f"program {i}" for i in range(len(facts))],
                asktell.BestFeasible("score"),
                len(facts) * n_examples,
                self._method,
                examples=n_examples,
            )
            for program, scores in enumerate(facts):
                for id_, score in scores:
                    if math.isfinite(score):
                        selector.observe(program, [score], place[id_])
            self._known = facts, [_mean(entry) for entry in selector.result().prompts]
        return self._known[1]


def _best(estimates: Sequence[float]) -> int:
    return max(range(len(estimates)), key=estimates.__getitem__)


def _mean(entry: PromptResult) -> float:
    mean = entry.estimate["score"]
    return -math.inf if mean is None or not entry.pulls else mean
