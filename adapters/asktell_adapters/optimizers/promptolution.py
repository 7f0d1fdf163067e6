"""promptolution: its tasks and predictors evaluate, its optimizers write the candidates, and the selection is ours."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, final

from asktell import EvaluatorError, InvalidArgumentError, Selector
from asktell.extend import import_extra, in_words
from asktell_adapters._scores import checked_example, number
from asktell_adapters.evaluators.llm import TrialLike

TOKENS = ("input_tokens", "output_tokens")


@final
class PromptolutionEvaluator:
    """Scores by a task, of what a predictor makes of the prompt and one of the task's rows.

    The scores are called "score", or by `names` if the task is a MultiObjectiveTask; beside them come "input_tokens"
    and "output_tokens", as promptolution counts them. A batch is one call of the LLM; if that fails, its trials are
    predicted one by one, so that only those fail that cannot be.

    Args:
        task: rows and metric. Make it, and any optimizer that takes rows out of it (CAPO does), before the evaluator.
        predictor: the LLM, and how its answers are read.
        names: of the scores of a MultiObjectiveTask's tasks, in order.

    Raises:
        InvalidArgumentError: the task's inputs and targets do not belong together, or the names do not fit.
    """

    def __init__(self, task: Any, predictor: Any, names: Sequence[str] = ("score",)) -> None:
        self._tasks = list(getattr(task, "tasks", [task]))
        if len(names) != len(self._tasks) or len({*names, *TOKENS}) != len(names) + len(TOKENS):
            raise InvalidArgumentError(
                f"names must be {len(self._tasks)} different ones, other than {list(TOKENS)}; got {list(names)}."
            )
        self.task, self.predictor, self.names = task, predictor, tuple(names)
        self.n_examples = len(task.xs)
        for part in self._tasks:
            # ClassificationTask drops repeated inputs, but not their targets.
            if len(part.xs) != self.n_examples or len(part.ys) != self.n_examples:
                raise InvalidArgumentError(
                    f"The task has {len(part.xs)} inputs and {len(part.ys)} targets: is an input there twice? Drop "
                    "repeated inputs before the task is made."
                )
        self._count = import_extra("promptolution.utils.token_counter", "promptolution").get_token_counter(
            predictor.llm
        )

    def evaluate_batch(self, trials: Sequence[TrialLike]) -> list[dict[str, float] | Exception]:
        """Scores in the order of the trials; one that fails yields its exception in its place.

        Raises:
            InvalidArgumentError: a trial names no example of the task, or the task has changed since.
        """
        if len(self.task.xs) != self.n_examples:
            raise InvalidArgumentError(
                f"The task had {self.n_examples} rows when the evaluator was made, and now {len(self.task.xs)}. Make "
                "optimizers that take rows out of it first."
            )
        pairs = [(trial.prompt, checked_example(trial.example, self.n_examples)) for trial in trials]
        return [
            answer if isinstance(answer, Exception) else self._score(pair, *answer)
            for pair, answer in zip(pairs, self._predict(pairs), strict=True)
        ]

    def _predict(self, pairs: list[tuple[str, int]]) -> list[tuple[str, str] | Exception]:
        """Prediction, and input with answer, of each pair."""
        try:
            predictions, sequences = self.predictor.predict(
                prompts=[prompt for prompt, _ in pairs], xs=[self.task.xs[row] for _, row in pairs]
            )
            if len(predictions) != len(pairs):
                raise EvaluatorError(f"the predictor was given {len(pairs)} inputs and returned {len(predictions)}")
            return list(zip(predictions, sequences, strict=True))
        except Exception as error:
            if len(pairs) == 1:
                return [error]
            return [answer for pair in pairs for answer in self._predict([pair])]

    def _score(self, pair: tuple[str, int], prediction: str, sequence: str) -> dict[str, float] | Exception:
        prompt, row = pair
        x = self.task.xs[row]
        try:
            scores = {
                name: number(name, task._evaluate([x], [task.ys[row]], [prediction])[0])
                for name, task in zip(self.names, self._tasks, strict=True)
            }
        except Exception as error:
            return error
        scores["input_tokens"] = self._count(prompt) + self._count(x)
        scores["output_tokens"] = self._count(sequence) - self._count(x)
        return scores


@final
class Proposer:
    """New candidates by an optimizer's own operators and meta prompts: EvoPromptGA, EvoPromptDE, OPRO, CAPO.

    The optimizer takes its steps with scores that it is given; it evaluates nothing itself, and afterwards is what it
    was. It draws from Python's and numpy's global random numbers: seed those for repeatable proposals.

    Args:
        optimizer: an optimizer of promptolution; of its prompts only the few-shot examples matter.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._prompts: dict[str, Any] = {str(prompt): prompt for prompt in optimizer.prompts}
        self._begun = False

    def propose(self, n: int, scores: Mapping[str, float], *, max_steps: int = 10) -> list[str]:
        """Up to n new prompts' texts, in the order in which they came.

        Args:
            n: prompts wanted.
            scores: what is known of the present prompts, by text; larger is better, and EvoPromptGA's wheel wants
                none below 0. They are the parents.
            max_steps: of the optimizer, at most; each proposes some.

        Raises:
            InvalidArgumentError: there are no parents.
            EvaluatorError: a step failed, or none brought a new prompt.
        """
        if not scores or n < 1:
            raise InvalidArgumentError(
                f"propose() needs n >= 1 and the scores of some prompts, got {n!r} and {scores!r}."
            )
        optimizer = self._optimizer
        task = _Scored(optimizer.task, scores)
        before = optimizer.task, optimizer.prompts, optimizer.scores
        found: dict[str, Any] = {}
        try:
            optimizer.task = task
            for _ in range(max_steps):
                self._step([self._prompt(text) for text in scores], list(scores.values()))
                found.update({text: prompt for text, prompt in task.seen.items() if text.strip()})
                if len(found) >= n:
                    break
        except Exception as error:
            raise EvaluatorError(f"{type(optimizer).__name__} failed to propose: {in_words(error)}") from error
        finally:
            optimizer.task, optimizer.prompts, optimizer.scores = before
        if not found:
            raise EvaluatorError(
                f"{type(optimizer).__name__} proposed nothing but the {len(scores)} prompts it was given, in "
                f"{max_steps} steps."
            )
        self._prompts.update(found)
        return list(found)[:n]

    def _step(self, prompts: list[Any], scores: list[float]) -> None:
        optimizer = self._optimizer
        optimizer.prompts, optimizer.scores = prompts, scores
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # CAPO's tests of scores that are all the same
            # CAPO begins by drawing few-shot examples for its population, once; others look at the scores.
            if not (self._begun and hasattr(optimizer, "df_few_shots")):
                optimizer._pre_optimization_loop()
                self._begun = True
            optimizer._step()

    def _prompt(self, text: str) -> Any:
        if text not in self._prompts:
            self._prompts[text] = import_extra("promptolution.utils.prompt", "promptolution").Prompt(text)
        return self._prompts[text]


def carry_over(earlier: Selector, later: Selector) -> None:
    """Let `later` observe every score that `earlier` has of the prompts that both have, example by example.

    Raises:
        InvalidArgumentError: the two have other metrics, or other numbers of examples.
    """
    history = earlier.state.history
    for arm, example, scores in zip(history.arms(), history.examples(), history.scores(), strict=True):
        same = later.prompts.texted(earlier.prompts.texts[arm])
        if same is not None:
            named = dict(zip(earlier.metrics, scores.tolist(), strict=False))
            later.observe(same, named, None if example < 0 else int(example))


class _Scored:
    """A task that knows the scores, and notes which prompts it is shown beside those; they are the worst."""

    def __init__(self, task: Any, scores: Mapping[str, float]) -> None:
        self._task = task
        self._scores = scores
        self.seen: dict[str, Any] = {}

    def evaluate(self, prompts: Any, predictor: Any = None, **_: Any) -> Any:
        np = import_extra("numpy", "promptolution")
        result = import_extra("promptolution.tasks.base_task", "promptolution").EvalResult
        shown = list(prompts) if isinstance(prompts, list | tuple) else [prompts]
        self.seen.update({str(prompt): prompt for prompt in shown if str(prompt) not in self._scores})
        worst = min(self._scores.values())
        means = np.array([self._scores.get(str(prompt), worst) for prompt in shown])
        none = np.zeros((len(shown), 1))
        return result(means[:, None], means, none, none, none, none[:, 0], none[:, 0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)
