"""What the name of a metric suggests: that less is better, or that it is an amount that is spent."""

import re

_RESOURCES = """
cost costs price prices fee fees expense expenses money spend spending usd eur dollars
cents energy emissions carbon
latency latencies delay delays duration durations time times runtime walltime elapsed
seconds secs sec ms milliseconds minutes hours ttft tpot
tokens length size words characters chars bytes calls requests steps turns retries
memory
"""


_FAULTS = """
error errors err loss losses logloss nll perplexity perplexities ppl entropy distance
distances divergence regret brier ece mse rmse mae mape msle rmsle
wer cer ter eer fpr fnr
toxicity toxic harm harms harmful harmfulness unsafe offensive bias biased risk risks
hallucination hallucinations hallucinated violation violations violated leak leaks leaked
leakage penalty penalties failure failures failed mistake mistakes wrong incorrect defects
bugs timeouts crashes crashed
rank ranks ranking
"""


# Words in the names of metrics where less is usually better, such as `cost`,
# `latency_ms` or `outputTokens`
LESS_IS_BETTER = frozenset((_RESOURCES + _FAULTS).split())


_REVERSE = """
free no non not without low lower neg negative negated inverse inv minus anti
efficiency efficient effectiveness savings saving saved reduction improvement
reciprocal correlation spearman
accuracy correct correctness precision recall f1 success pass passed quality
reward utility satisfaction detection detected avoidance avoided resistance
robustness tolerance recovery handling correction corrected compliance completed
"""


# Words that reverse the meaning of these words, such as in `error_free`,
# `neg_mean_squared_error`, `cost_efficiency` or `error_detection`
_REVERSING = frozenset(_REVERSE.split())


# A score of a resource, such as `latency_score`, is usually larger if less is used. A
# score of a fault, such as `toxicity_score`, is not.
_RATING = frozenset(("score", "scores", "rating", "grade"))


def less_may_be_better(metric: str) -> bool:
    """True if a metric's name suggests that less is better, because it contains a word such as "cost" or "latency".

    `asktell.problem.metric_names.LESS_IS_BETTER` lists the words. A word that reverses the
    meaning, as in "error_free" or "cost_efficiency", makes it False.
    """
    words = _words(metric)
    if not _REVERSING.isdisjoint(words):
        return False
    if not _RATING.isdisjoint(words):
        return not words.isdisjoint(_FAULTS.split())
    return not words.isdisjoint(LESS_IS_BETTER)


def _words(metric: str) -> set[str]:
    """The words in the name of a metric, in small letters."""
    parts = re.findall(r"[fF]1|[A-Z]?[a-z]+|[A-Z]+(?![a-z])", metric)
    return {part.lower() for part in parts}


def is_expense(metric: str) -> bool:
    """True if a metric's name suggests an amount that is spent, such as "cost", "latency_ms" or "output tokens".

    An example on which a prompt spends more is not broken, so such a metric is not
    compared example by example unless somebody asks for it.
    """
    words = _words(metric)
    is_spent = not words.isdisjoint(_RESOURCES.split())
    return is_spent and words.isdisjoint(_REVERSING | _RATING)
