"""Engine: checks what comes in, makes events of it, folds them into the state, and lets the method decide.

It is the only mutable object of the record. `Selector` is an engine with a lock. The
engine of a study hands its events to the study's log.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import islice
from operator import attrgetter

from asktell._util.threads import undisturbed
from asktell.errors import ConflictingTellError, InvalidArgumentError, UnknownTrialError
from asktell.numerics.intmap import IntMap
from asktell.problem.checks import (
    check_cost,
    check_name,
    check_reason,
    needed_cost,
)
from asktell.problem.goals import Goal
from asktell.problem.problem import Problem
from asktell.problem.prompts import AnyPrompt, Prompts
from asktell.problem.scores import AnyScores, by_name, proxy_score
from asktell.problem.trials import AnyTrial, Trial, from_json
from asktell.problem.words import short, some
from asktell.record import events, growth
from asktell.record.fold import Decider, apply, check, decision_of
from asktell.record.state import GrowthStep, State, initial


def checked_scores(
    goal: Goal, proxies: Sequence[str], scores: object, is_observed: bool = False
) -> tuple[tuple[float, ...] | None, tuple[float | None, ...]]:
    """Check the scores of the goal's metrics and of the proxies. See `Goal.vector`.

    Args:
        goal: the goal.
        proxies: the names of the proxies.
        scores: what a user passed, or a `Told`, whose scores were checked before.
        is_observed: True if scores of proxies alone are enough.

    Returns:
        The scores in the order of the goal's columns, None if there are only scores of
        proxies. And the scores of the proxies, None for a missing score, and empty if
        all are missing.

    Raises:
        InvalidScoresError: a score is invalid, or a metric is missing.
    """
    if isinstance(scores, events.Told):
        return scores.scores, scores.proxies
    if not proxies:
        return goal.vector(scores), ()
    scores = by_name(scores)
    if not isinstance(scores, Mapping):
        return goal.vector(scores), ()
    of_proxies = tuple([proxy_score(name, scores.get(name)) for name in proxies])
    if all(score is None for score in of_proxies):
        return goal.vector(scores), ()
    if is_observed and not any(name in scores for name in goal.metrics):
        return None, of_proxies
    return goal.vector(scores), of_proxies


class Engine:
    """One selection on its way. It does not decide by itself, except when it is asked for trials.

    Its methods do what the methods of `Selector` with the same names do. It checks what
    users pass, what the method decides, and in `replay` what a log has. An error
    changes nothing. An engine has no lock, so use it from one thread at a time.

    Args:
        prompts: the prompts at the beginning of the selection, without added ones.
        method: the method.
        state: the state to continue from.
        record: called with every event, after it was folded into the state.

    Attributes:
        first_prompts: the argument `prompts`.
        prompts: the prompts now.
        method: the method.
        state: the state now. See `go_to`.
        record: the argument `record`.
    """

    def __init__(
        self,
        prompts: Prompts,
        method: Decider,
        state: State,
        record: Callable[[events.AnyEvent], None] | None = None,
    ) -> None:
        self.first_prompts = prompts
        self.method = method
        self.state = state
        self.record = record
        # A state, and the decision that is due in it. See `next_decision`
        self._due: tuple[State, events.Decided | None] | None = None
        # A state, and the state after the decisions that are due in it
        self._ahead: tuple[State, State] | None = None
        self.renew()

    @classmethod
    def of(cls, prompts: Prompts, method: Decider, problem: Problem) -> "Engine":
        """A selection before its first event."""
        return cls(prompts, method, initial(problem))

    def renew(self) -> None:
        """Begin again. In a forked process, because a thread of the parent may have left a step half done."""
        self.prompts = self.first_prompts
        # The growth that `prompts` include
        self._growth: tuple[GrowthStep, ...] = ()
        self.go_to(self.state)

    def go_to(self, state: State) -> None:
        """Go on from another state of the same selection, such as one that another process has reached."""
        now = state.growth.events
        if self._growth is not now:
            n, prompts = len(self._growth), self.prompts
            # It may be an earlier state, or have other growth
            if self._growth != now[:n]:
                n, prompts = 0, self.first_prompts
            for grown in now[n:]:
                prompts = growth.prompts_after(prompts, grown.event)
            self.prompts, self._growth = prompts, now
        self.state = state

    def at(self, state: State) -> "Engine":
        """Return an engine of the same selection in another state, whose events nobody records.

        The two share the rows of scores. If both go on, copy the state's history
        before.
        """
        engine = copy(self)
        engine.record = None
        engine.go_to(state)
        return engine

    def asked_before(self, trial: int, arm: int, example: int) -> int:
        """The number of trials of the cell (`arm`, `example`) that were assigned before this trial.

        Failed trials count, too.
        """
        trials = [
            pull.trial
            for pull in self.state.plan.in_progress
            if pull.trial is not None and (pull.arm, pull.example) == (arm, example)
        ]
        for rows in (self.state.history, self.state.missing.pulls):
            of_cell = (rows.arms() == arm) & (rows.examples() == example)
            trials += rows.trials()[of_cell].tolist()
        return sum(0 <= number < trial for number in trials)

    def _take(self, event: events.AnyEvent) -> None:
        """Fold an event into the state."""
        self.state = apply(self.state, event)
        if self.record is not None:
            self.record(event)

    def replay(self, event: events.AnyEvent) -> None:
        """Fold an event of a log, which may contain anything.

        Raises:
            InvalidStateError: the event cannot come next.
            InvalidArgumentError: as for `check`.
            IncompatibleMethodError: the method does not support the growth.
        """
        check(self.state, event)
        if isinstance(event, events.Growth):
            self._grow(event)
        else:
            self._take(event)

    def _grow(self, event: events.Growth) -> None:
        """Fold growth that was checked, unless the method does not support it."""
        self.method.check_growth(event)
        self._take(event)
        self.go_to(self.state)  # with the new prompts

    # Asking

    def ask(self, n: int) -> list[Trial]:
        """Return up to n trials, grouped by prompt. Decides if the plan is used up."""
        if n == 1:  # most asks: a sixth faster
            first = self._ask_next()
            if first is None:
                return []
            return [self.prompts.trial(first.trial, first.arm, first.example)]
        asked = list(islice(iter(self._ask_next, None), n))
        # Grouped by prompt, for prefix caches; stable, so that a prompt's examples keep
        # their order.
        asked.sort(key=attrgetter("arm"))
        return [self.prompts.trial(e.trial, e.arm, e.example) for e in asked]

    def _ask_next(self) -> events.Asked | None:
        """Assign the next evaluation, and return it. None if there is none now."""
        pull = self.next_pull()
        # The plan is used up: the method decides, and usually plans more evaluations
        if pull is None:
            self.decide()
            pull = self.next_pull()
            if pull is None:
                return None
        # A released trial keeps its id. Any other evaluation gets the next id.
        asked = events.Asked(
            self.state.plan.asked if pull.trial is None else pull.trial,
            pull.arm,
            pull.example,
        )
        self._take(asked)
        return asked

    def next_pull(self) -> events.Pull | None:
        """The next pull of the plan, unless the selection is finished or the pull may exceed the remaining cost."""
        # The queue of returned trials can be filled after the end, by a released trial
        # of the baseline, which is never eliminated. The selection is still finished.
        state = self.state
        pull = state.plan.next()
        is_next = pull is not None and not state.finished and state.fits(pull.arm)
        return pull if is_next else None

    def trial(self, id_: int) -> Trial:
        """A pending trial."""
        pull = self.state.pending[id_]
        return self.prompts.trial(id_, pull.arm, pull.example)

    # Deciding

    def decide(self) -> None:
        """Let the method decide until it plans evaluations, waits for pending trials, or ends the selection."""
        # A decision that plans nothing is followed by the next one at once.
        while self.state.may_decide and (decided := self.next_decision()) is not None:
            self._take(decided)

    def next_decision(self) -> events.Decided | None:
        """The decision that is due, computed once. It changes nothing. Call it only if `state.may_decide` is True.

        Raises:
            InvalidStateError: the method returned a decision that no saved selection
                may have, such as a plan beyond the budget.
        """
        state, computed = self.state, self._due
        if computed is None or computed[0] is not state:
            with undisturbed:
                computed = state, decision_of(self.method, state)
            self._due = computed
        return computed[1]

    @property
    def state_ahead(self) -> State:
        """The state after the decisions that the next `ask` will make. They are not recorded.

        It is the present state if a trial is pending, or before the first trial.
        """
        state = self.state
        if state.pending or not state.plan.asked:
            return state
        computed = self._ahead
        if computed is None or computed[0] is not state:
            ahead = self
            if state.may_decide:
                ahead = self.at(state)
                ahead.decide()
            computed = self._ahead = state, ahead.state
        return computed[1]

    # Telling

    def tell(self, trial: AnyTrial, scores: AnyScores, cost: float | None) -> bool:
        """Record the scores of a trial."""
        problem = self.state.problem
        vector, proxies = checked_scores(problem.goal, problem.proxies, scores)
        assert vector is not None, "only observations have no vector"
        cost = needed_cost(cost, problem.max_cost)
        id_, pull = self.find(trial)
        return self.tell_checked(events.Told(id_, vector, cost, proxies), pull)

    def tell_checked(self, told: events.Told, pull: events.Pull | None) -> bool:
        """Record scores that were checked. `pull` is what `find` returned for the trial."""
        # A worker may repeat a tell whose answer was lost. The same scores change nothing.
        if pull is None:
            _check_same(self.state, told)
            return False
        self._take(told)
        return True

    def observe(
        self,
        prompt: AnyPrompt,
        scores: AnyScores | None,
        example: int | str | None = None,
        cost: float | None = None,
    ) -> bool:
        """Record scores for which no trial was asked."""
        problem, cost = self.state.problem, check_cost(cost)
        vector: tuple[float, ...] | None = None
        proxies: tuple[float | None, ...] = ()
        # Without scores and without a cost, the scores are refused.
        if scores is not None or cost is None:
            vector, proxies = checked_scores(
                problem.goal, problem.proxies, scores, is_observed=True
            )
        arm = self.prompts.arm(prompt)
        place = None if example is None else problem.examples.position(example)
        if proxies and place is None:
            raise InvalidArgumentError(
                f"Got scores of the proxies {some(problem.proxies)} without their example. Pass "
                "the example's position or id as `example`."
            )
        self._take(events.Observed(arm, place, vector, cost, proxies))
        return True

    def fail(
        self, trial: AnyTrial, reason: str | BaseException, cost: float | None = None
    ) -> bool:
        """Record a failed evaluation."""
        id_, pull = self.find(trial)
        if pull is None:
            self._check_was_asked(id_)
            return False
        self._take(events.Failed(id_, check_reason(reason), check_cost(cost)))
        return True

    def release(self, trial: AnyTrial) -> bool:
        """Return a trial without evaluating it."""
        id_, _ = self.find(trial)
        # Not the pull: a trial that was released already is not pending any more.
        if id_ not in self.state.pending:
            self._check_was_asked(id_)
            return False
        self._take(events.Released(id_))
        return True

    def _check_was_asked(self, trial: int) -> None:
        """Raise an UnknownTrialError for a trial that was never asked."""
        if not 0 <= trial < self.state.plan.asked:
            raise _not_out(self.state, trial)

    # Growing

    def add(self, prompts: object, *, key: str | None = None) -> list[str | int]:
        """Add prompts, and return their ids."""
        # The key comes first, since the prompts of a repeated request exist already and
        # would be no addition.
        earlier = growth.request(self.state, key, events.Added)
        if earlier is not None:
            return growth.ids_again(self.prompts, prompts, *earlier)
        event, ids = growth.addition(self.state, self.prompts, prompts, key)
        if event is not None:
            self._grow(event)
        return ids

    def retire(
        self, prompt: AnyPrompt, reason: str | BaseException, *, key: str | None = None
    ) -> bool:
        """Retire a prompt. False if the request was a repeated one."""
        event = events.Retired(
            self.prompts.arm(prompt), check_reason(reason), growth.check_key(key)
        )
        is_new = growth.is_new(self.state, event)
        if is_new:
            self._grow(event)
        return is_new

    def extend(
        self,
        evaluations: int | None = None,
        cost: float | None = None,
        examples: int | Sequence[str] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        """Add to the budget or the examples."""
        event = growth.extension(evaluations, cost, examples, key)
        if growth.is_new(self.state, event):
            self._grow(event)

    def remark(
        self, text: str, *, topic: str = "scores", doubtful: bool = False
    ) -> None:
        """Add a note about the scores to the result."""
        if not isinstance(text, str) or not text.strip():
            raise InvalidArgumentError(
                f'remark() needs text, such as "Scored by a judge.". Got {short(text)}.'
            )
        # A separate line could be a command to a log reader
        line = " ".join(text.split())
        event = events.Remarked(
            check_name("The topic of a remark", topic), line, bool(doubtful)
        )
        if self.state.remarks.get(event.topic) != event:
            self._take(event)

    # Looking up

    def find(
        self, trial: AnyTrial, held: IntMap[None] | None = None
    ) -> tuple[int, events.Pull | None]:
        """Find a trial, given as a trial, its JSON, its id, or a prompt.

        Args:
            trial: the trial. A prompt stands for its oldest trial in `held`, or else
                for its oldest pending trial.
            held: ids of pending trials. None is like no trials.

        Returns:
            The id of the trial, and its evaluation. The latter is None if the trial is
            neither pending nor released.

        Raises:
            UnknownTrialError: the trial belongs to another prompt or example, or the
                prompt has no pending trial.
        """
        state = self.state
        # The usual case, a trial from `ask`, needs no parsing.
        if not (type(trial) is Trial and type(trial.id) is int):
            trial = from_json(trial)
        if isinstance(trial, str):
            trial = self._oldest(trial, held)
        if not isinstance(trial, Trial):
            return trial, state.plan.open(trial)
        pull = state.plan.open(trial.id)
        cell = state.history.pull_of(trial.id) if pull is None else pull[1:]
        if cell is not None:
            # The prompt and the example must be those of the id
            arm, example = cell
            id_, text = self.prompts.ids[arm], self.prompts.texts[arm]
            is_same = trial.prompt_id == id_ and trial.example == example
            if not is_same or trial.prompt not in (None, "", text):
                raise UnknownTrialError(
                    f"Trial {trial.id} is prompt {short(id_)} ({short(text)}) on example {example}, not prompt "
                    f"{short(trial.prompt_id)} ({short(trial.prompt)}) on example {short(trial.example)}. Your trial "
                    "comes from another study or selector, or from before a crash. If its example is the same here, "
                    "record its scores with observe()."
                )
        return trial.id, pull

    def _oldest(self, prompt: str, held: IntMap[None] | None) -> int:
        """The oldest trial of a prompt, which has this id or text, that is in `held`, or else that is pending."""
        state = self.state
        arm = self.prompts.find(prompt)
        if arm is None:
            raise UnknownTrialError(f"{self.prompts.unknown(prompt)} {_pending(state)}")
        if held is not None:
            for id_ in state.plan.pending_of(arm):
                if id_ in held:
                    return id_
        trials = list(islice(state.plan.pending_of(arm), 1))
        # A released trial may still be told: its worker was only late.
        for pull in state.plan.returned:
            if pull.arm == arm and pull.trial is not None:
                trials.append(pull.trial)
        if not trials:
            raise UnknownTrialError(
                f"The prompt {short(prompt)} has no pending trial. {_pending(state)}"
            )
        return min(trials)


def _not_out(state: State, trial: int) -> UnknownTrialError:
    """The error for a trial that is not pending."""
    if trial in state.failures:
        what = f"Trial {short(trial)} has failed already."
    elif state.history.scores_of(trial) is not None:
        what = f"The scores of trial {short(trial)} were recorded already."
    else:
        what = f"Trial {short(trial)} is not pending."
    return UnknownTrialError(f"{what} {_pending(state)}")


def _check_same(state: State, told: events.Told) -> None:
    """Check that these scores were recorded before for a trial that is not pending.

    Raises:
        UnknownTrialError: the trial has no scores.
        ConflictingTellError: other scores were recorded.
    """
    # With `on_failure` as scores, a failed trial has scores that were never told.
    before = state.history.scores_of(told.trial)
    if before is None or told.trial in state.failures:
        raise _not_out(state, told.trial)
    if before != told.scores:
        columns = state.problem.goal.columns
        then, now = (
            dict(zip(columns, scores, strict=True)) for scores in (before, told.scores)
        )
        raise ConflictingTellError(
            f"Trial {told.trial} has the recorded scores {then}. Got the different scores {now}. "
            "A trial is evaluated once. Record further scores of the same prompt with observe()."
        )


def _pending(state: State) -> str:
    pending = sorted(state.pending)
    return (
        f"The pending trials have the ids {some(pending)}."
        if pending
        else "No trial is pending. Call ask() first."
    )
