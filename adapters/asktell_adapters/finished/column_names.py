"""Names that columns of results usually have. They decide where the cells permit several roles."""

import re

from asktell.extend import less_may_be_better

_CANDIDATES = """
prompt candidate variant model agent system method version config configuration engine arm llm
strategy approach technique policy treatment condition algorithm checkpoint bot assistant setup
experiment provider model/adapter modell modèle modelo modello модель промпт 模型 提示词 モデル 모델
"""
CANDIDATES = tuple(_CANDIDATES.split())
"""Columns with the candidate's name, the usual ones first. Each may end with "name", "id", "version" or "label"."""

_EXAMPLES = """
example_id example id item case test question_id task_id doc_id instance_id sample_id item_id
case_id test_id example_name sample instance item_number problem_id prompt_uid query_id qid uid uuid
guid key (key) hash task test_case testcase beispiel ejemplo exemple пример
"""
EXAMPLES = tuple(_EXAMPLES.split())
"""Columns with the example's id, the usual ones first."""

_INDEXES = """
idx index nr no number num row row_id row_number line # № n° nº rownum position pos order ord
unnamed:_0 level_0 номер nummer numéro numero número 序号 番号 번호
"""
INDEXES = frozenset(_INDEXES.split())
"""Columns that number the rows."""

_INPUTS = """
question input prompt query instruction problem text source user_input user_query sentence task goal
title frage pregunta domanda pergunta вопрос 问题 質問 질문
"""
INPUTS = tuple(_INPUTS.split())
"""Columns with the input of an example. An input that differs from row to row can identify the example."""

_REPEATS = """
run run_id run_index repeat repetition rep replicate epoch trial trial_id attempt attempt_id seed
iteration iter try round k sample_index generation_index train_trial_index wiederholung lauf попытка
"""
REPEATS = frozenset(_REPEATS.split())
"""Columns that number the repeated evaluations of a candidate on an example."""

_SUMMARIES = """
average avg mean total sum overall all median summary macro micro std итого среднее gesamt
aggregate aggregated mittelwert durchschnitt summe moyenne media promedio 平均 合计 合計
"""
_OF_SUMMARIES = frozenset(_SUMMARIES.split())
_LONGEST_SUMMARY = 30  # characters
_KINDS_OF_SUMMARIES = frozenset(("grand", "weighted", "row", "column"))

SETTINGS = frozenset(
    ("temperature", "top_p", "top_k", "max_tokens", "reasoning_effort")
)
"""Columns with a setting of the candidate. Runs of a model with different settings are different candidates."""

SEGMENTS = frozenset(("segment", "segments"))

_ERRORS = """
error errors error_message error_msg exception failure failure_reason fail_reason err traceback
fehler erreur ошибка 错误 エラー
"""
ERRORS = frozenset(_ERRORS.split())
"""Columns with the reason of a failure."""

_STATUSES = """
status state outcome result run_status exit_status finish_status статус zustand estado 状态
"""
STATUSES = frozenset(_STATUSES.split())

_NO_SCORES = """
label gold golden target expected answer reference truth ground_truth prediction predicted pred
response output completion choice choices difficulty level year month day date time_stamp timestamp
created created_at updated updated_at ts start end started ended page port zip phone age fold group
cluster batch size_of_input temperature top_p max_tokens version split dataset notes note comment
comments user session turn step part section subtask tstamp learning_rate lr batch_size
threshold
"""
NO_SCORES = frozenset(_NO_SCORES.split())
"""Columns of numbers that are no scores: inputs, references, dates, settings."""

_STANDARD_ERRORS = ("stderr", "std_err", "std_error", "standard_error")

METRICS = frozenset(("metric", "metrics", "metric_name", "measure", "kennzahl"))
"""Columns with the name of a metric in each row."""

_BENCHMARKS_WORDS = """
mmlu cmmlu mmmu mmlupro arc arcc arce hellaswag truthfulqa winogrande gsm gsm8k mgsm humaneval mbpp
ifeval bbh bigbench gpqa musr boolq piqa siqa openbookqa obqa triviaqa naturalquestions squad
swebench livecodebench livebench aime mtbench arenahard alpacaeval agieval ceval commonsenseqa lambada
hotpotqa superglue glue mteb xquad docvqa chartqa mathvista mathlvl math500 simpleqa webarena osworld
gaia taubench bfcl multipl wildbench
"""
_BENCHMARKS = frozenset(_BENCHMARKS_WORDS.split())
_WORDS_OF_A_BENCHMARK = 3

UNTITLED = frozenset(("(unnamed_1)", "unnamed:_0", "name"))
"""Columns with names of rows that may be examples as well as candidates."""

WINNERS = frozenset(("winner", "preferred", "preference", "winning_model"))
"""Columns with the better one of two responses."""

_RESPONSES = """
response output completion prediction predicted answer generation model_output model_response
actual_output reply
"""
RESPONSES = frozenset(_RESPONSES.split())
"""Columns with the text of a response. A table with exactly one is the run of one candidate."""

_METRICS_WORDS = """
accuracy acc ok correct correctness right score scores points rating ratings grade grades mark marks f1
fscore rouge rougel rougelsum bleu bertscore meteor chrf comet em match exact precision recall pass
passed passes success successful solved resolved similarity relevance relevancy relevant
faithfulness faithful groundedness grounded helpfulness helpful harmlessness harmless honesty honest
toxic coherence coherent fluency fluent clarity clear conciseness concise completeness complete
consistency consistent style tone politeness polite safety safe quality utility usefulness useful
informativeness factuality factual truthfulness truthful readability creativity engagement diversity
novelty depth detail naturalness adequacy overall verbosity refusal refused valid validity
compliance adherence reward preference win wins winrate elo rank ranking auc auroc mcc kappa ndcg
mrr map hit hits iou dice psnr ssim avg average mean median std stdev stddev variance var min max
sum total count num n rate ratio percent percentage pct confidence logprob likelihood probability
prob entropy throughput speed tps ttft reading sentences paragraphs tool tools retries lines edits
micro macro weighted strict flexible loose at judge rater annotator grader reviewer evaluator expert
labeler genauigkeit richtig punkte note dauer kosten exactitude précision rappel coût durée
precisión exactitud puntuación costo coste точность полнота чистота оценка балл баллы очки стоимость
время длина 准确率 得分 分数 成本 延迟 正確
"""
_METRICS = frozenset(_METRICS_WORDS.split())
_QUESTIONS = frozenset(
    [
        "is",
        "has",
        "have",
        "does",
        "do",
        "did",
        "are",
        "was",
        "were",
        "can",
        "should",
        "will",
        "contains",
    ]
)
_DIFFERENCES = frozenset(
    (
        "diff",
        "difference",
        "delta",
        "gain",
        "change",
        "improvement",
        "lift",
        "gap",
        "differenz",
        "différence",
        "diferencia",
        "разница",
    )
)
_OF_REFERENCES = frozenset(
    (
        "expected",
        "gold",
        "golden",
        "reference",
        "target",
        "true",
        "predicted",
        "pred",
        "ideal",
    )
)
# A run's settings in an export of experiments, such as "params.alpha" or "config/lr"
_OF_SETTINGS = re.compile(
    r"(params?|config|hparams|hyperparameters)[./]", re.IGNORECASE
)
_NUMBER_AT_END = re.compile(r"[\d@]+$")
_QUALIFIERS = ("_name", "_id", "_version", "_label", "_key", "_text")


def plain(name: str) -> str:
    """A column's name in lower case, with underscores for spaces, dots and hyphens."""
    return re.sub(r"[\s.\-]+", "_", name.strip().lower())


def words(name: str) -> list[str]:
    """The words of a column's name in lower case: "outputTokens.p95" has output, tokens and p95."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return [word.lower() for word in re.findall(r"[^\W_]+", spaced)]


def is_summary(cell: object) -> bool:
    """Whether a cell is the title of a row that summarizes others, such as "Total" or "weighted avg"."""
    text = str(cell)
    if text[-1:].isdigit() or len(text) > _LONGEST_SUMMARY:
        return False  # most ids, and a large table has millions of them
    parts = set(words(text))
    title = parts - _KINDS_OF_SUMMARIES
    return bool(title) and title <= _OF_SUMMARIES


def is_metric(name: str) -> bool:
    """Whether a column's name has a word of a usual metric, or asks a question, as "is_valid" does."""
    first = words(name)[:1]
    asks = name.rstrip().endswith("?") or (first and first[0] in _QUESTIONS)
    return (
        bool(asks)
        or less_may_be_better(name)
        or any(
            word in _METRICS or _NUMBER_AT_END.sub("", word) in _METRICS
            for word in words(name)
        )
    )


def is_benchmark(name: str) -> bool:
    """Whether a column has the name of a public benchmark, such as "MMLU-Pro (5-shot)", so that it has averages."""
    parts = words(name)
    # "Hella Swag" is one name
    beginnings = {
        "".join(parts[:n]) for n in range(1, 1 + min(len(parts), _WORDS_OF_A_BENCHMARK))
    }
    return not _BENCHMARKS.isdisjoint(beginnings)


def rank(name: str, usual: tuple[str, ...]) -> int | None:
    """The position of a name among usual names, or None.

    "model_name" has the position of "model". Any other name that ends with "id" comes last among those of examples.
    """
    text = plain(name)
    if text in usual:
        return usual.index(text)
    for qualifier in _QUALIFIERS:
        stem = text.removesuffix(qualifier)
        if stem != text and usual is CANDIDATES and stem in usual:
            return usual.index(stem)
    stem = text.removesuffix("_id")
    if stem != text and usual is EXAMPLES:
        is_other = stem in CANDIDATES or text in REPEATS or text in NO_SCORES
        return None if is_other else len(usual)
    return None


def is_reference(name: str) -> bool:
    """Whether a column is no score by its name: a reference, a prediction, a date, a setting."""
    first = words(name)[:1]
    text = plain(name)
    is_id = text.endswith("_id") or text in SETTINGS
    is_setting = _OF_SETTINGS.match(name.strip()) is not None
    return (
        is_id
        or is_setting
        or text in NO_SCORES
        or is_standard_error(name)
        or (bool(first) and first[0] in _OF_REFERENCES)
    )


def is_standard_error(name: str) -> bool:
    """Whether a column has standard errors, so that its table has means."""
    return plain(name).endswith(_STANDARD_ERRORS)


def is_difference(name: str) -> bool:
    """Whether a column may have the differences of two others."""
    return not _DIFFERENCES.isdisjoint(words(name.replace("Δ", "delta")))


def is_input_id(name: str) -> bool:
    """Whether a column has the id of an input, such as "prompt_id", which may also be the name of a candidate."""
    stem = plain(name).removesuffix("_id")
    return stem != plain(name) and stem in INPUTS


def is_no_score(name: str) -> bool:
    """Whether a column has a usual name of something other than a score."""
    text = plain(name)
    return (
        is_reference(name)
        or text in RESPONSES | INDEXES | ERRORS | STATUSES | REPEATS | SEGMENTS
        or text in INPUTS
        or rank(name, EXAMPLES) is not None
        or rank(name, CANDIDATES) is not None
    )


_BROKEN_WORDS = """
error errored timeout timed_out time_out crash crashed exception cancelled canceled aborted killed
oom rate_limited rate_limit api_error infrastructure_error infra_error out_of_memory interrupted
expired
"""
_BROKEN = frozenset(_BROKEN_WORDS.split())


def is_failure(cell: object) -> bool:
    """Whether a status, such as "timeout", says that there is no response to score."""
    word = plain(str(cell))
    return word in _BROKEN or word.startswith(("timeout", "timed_out", "error"))
