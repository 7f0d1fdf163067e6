"""A module for `evaluate.load(<this folder>)`, with the arguments and the numbers of the hub's `rouge`."""

# `evaluate` reads the import lines itself before it runs this file: no comments and no
# two modules on one.
# mypy: ignore-errors
import datasets
import evaluate
from rouge_score import rouge_scorer, scoring

_DEFAULT_TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")


class _CallableTokenizer:
    """A function from text to tokens, in the shape that rouge_score wants."""

    def __init__(self, function):
        self.tokenize = function


class Rouge(evaluate.Metric):
    """F1 of ROUGE by type; see `compute`'s arguments in `_compute`."""

    def _info(self):
        text = datasets.Value("string")
        several = getattr(datasets, "List", datasets.Sequence)(text)
        return evaluate.MetricInfo(
            description="ROUGE F1 by the rouge_score package, offline.",
            citation="Lin, C.-Y. ROUGE: A package for automatic evaluation of summaries. 2004.",
            inputs_description="predictions: list of str; references: list of str, or of lists of str.",
            features=[
                datasets.Features({"predictions": text, "references": several}),
                datasets.Features({"predictions": text, "references": text}),
            ],
            reference_urls=["https://aclanthology.org/W04-1013"],
        )

    def _compute(
        self,
        predictions,
        references,
        rouge_types=None,
        use_aggregator=True,
        use_stemmer=False,
        tokenizer=None,
    ):
        """F1 by type: a list over predictions, or the median of bootstrapped means with `use_aggregator`.

        The bootstrap draws from NumPy's global random state, as the hub's does.
        """
        scorer = rouge_scorer.RougeScorer(
            rouge_types=list(rouge_types or _DEFAULT_TYPES),
            use_stemmer=use_stemmer,
            tokenizer=None if tokenizer is None else _CallableTokenizer(tokenizer),
        )
        several = isinstance(references[0], list)
        score = scorer.score_multi if several else scorer.score
        rows = [
            score(reference, text)
            for reference, text in zip(references, predictions, strict=True)
        ]
        if not use_aggregator:
            return {name: [row[name].fmeasure for row in rows] for name in rows[0]}
        aggregator = scoring.BootstrapAggregator()
        for row in rows:
            aggregator.add_scores(row)
        return {
            name: interval.mid.fmeasure
            for name, interval in aggregator.aggregate().items()
        }
