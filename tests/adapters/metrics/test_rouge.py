"""ROUGE: a module of evaluate, ours and rouge_score give the same numbers, bit for bit."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asktell.errors import EvaluatorError
from asktell_adapters.evaluators import Completion, Example
from asktell_adapters.metrics import HuggingFaceMetric, Rouge, token_f1

TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
TEXTS = [
    "The cats sat on the mat.\nThen it left.",
    "A dog ran, running fast",
    "",
    "then it was on the mat\nthe cat",
]
REFERENCES = [
    "The cat is sitting on a mat.\nIt left then.",
    "dogs run",
    "nothing",
    "on the mat, then it was the cat",
]
lines = st.lists(
    st.sampled_from(["the", "cat", "cats", "sat", "on", "mat", "\n", "ran", "Running"]),
    max_size=15,
)


@pytest.fixture(scope="module")
def module() -> Any:
    evaluate = pytest.importorskip("evaluate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_EVALUATE_OFFLINE", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield evaluate.load(str(Path(__file__).parents[2] / "assets" / "rouge"))


def direct(rouge_type: str, text: str, *references: str, stem: bool = False) -> float:
    # Here, as it takes long
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = rouge_scorer.RougeScorer([rouge_type], use_stemmer=stem)
    return max(
        float(scorer.score(reference, text)[rouge_type].fmeasure)
        for reference in references
    )


@pytest.mark.parametrize("stem", [False, True])
def test_the_module_equals_rouge_score_and_the_fast_path(
    module: Any, stem: bool
) -> None:
    found = module.compute(
        predictions=TEXTS, references=REFERENCES, use_aggregator=False, use_stemmer=stem
    )
    assert list(found) == TYPES
    for name in TYPES:
        assert found[name] == [
            direct(name, *pair, stem=stem)
            for pair in zip(TEXTS, REFERENCES, strict=True)
        ]
        fast = Rouge(name, use_stemmer=stem)
        assert found[name] == [
            fast.score(*pair) for pair in zip(TEXTS, REFERENCES, strict=True)
        ]


def test_several_references_count_by_the_best(module: Any) -> None:
    several = [[reference, "the cat"] for reference in REFERENCES]
    found = module.compute(predictions=TEXTS, references=several, use_aggregator=False)
    for name in TYPES:
        expected = [
            direct(name, text, *references)
            for text, references in zip(TEXTS, several, strict=True)
        ]
        assert found[name] == expected
        examples = [Example("", references) for references in several]
        pairs = zip(TEXTS, examples, strict=True)
        assert [
            Rouge(name)(Completion(text), example) for text, example in pairs
        ] == expected


@settings(max_examples=30, deadline=None)
@given(text=lines, reference=lines, rouge_type=st.sampled_from(TYPES))
def test_the_fast_path_equals_rouge_score(
    text: list[str], reference: list[str], rouge_type: str
) -> None:
    one, other = " ".join(text), " ".join(reference)
    value = Rouge(rouge_type).score(one, other)
    assert value == direct(rouge_type, one, other)
    assert 0 <= value <= 1


def test_splitting_sentences_matters_to_lsum_only() -> None:
    text, reference = "The cat sat. A dog ran.", "A dog ran. The cat sat."
    assert Rouge(split=True).score(text, reference) == 1.0
    assert Rouge().score(text, reference) == 0.5
    assert Rouge("rouge1", split=True).score(text, reference) == Rouge("rouge1").score(
        text, reference
    )


def test_a_module_that_cannot_be_loaded_names_the_offline_way(tmp_path: Any) -> None:
    pytest.importorskip("evaluate")
    with pytest.raises(EvaluatorError, match="pass the folder"):
        HuggingFaceMetric(tmp_path / "nothing", "x")(Completion("a"), Example("", "b"))


@pytest.mark.parametrize(
    ("text", "reference", "score"),
    [
        (
            "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
            "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
            1.0,
        ),
        ("\u0645\u0631\u062d\u0628\u0627", "\u0645\u0631\u062d\u0628\u0627", 1.0),
        (
            "\u092a\u0942\u0930\u094d\u0935 \u091b",
            "\u092a\u0942\u0930\u094d\u0935",
            2 / 3,
        ),
        (
            "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
            "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
            1.0,
        ),
        ("\u6211\u559c\u6b22GPT\u3002", "\u6211\u7231GPT", 2 * 2 / (4 + 3)),
        ("na\xefve \u2018caf\xe9\u2019", "na ve caf", 1.0),  # as rouge_score does
    ],
)
def test_words_of_every_script_count(text: str, reference: str, score: float) -> None:
    pytest.importorskip("rouge_score")
    assert Rouge("rouge1").score(text, reference) == pytest.approx(score)


def test_a_character_of_a_script_without_spaces_is_a_word_for_token_f1() -> None:
    completion = Completion("\u6211\u559c\u6b22\u5317\u4eac\u3002")
    assert token_f1(
        completion, Example("", "\u6211\u7231\u5317\u4eac")
    ) == pytest.approx(2 * 3 / 9)
