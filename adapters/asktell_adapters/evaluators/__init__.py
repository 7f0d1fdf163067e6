"""Evaluators that score prompts with LLMs; the LLMs of `asktell_adapters.llms` can be had from here, too."""

from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms import (
    LLM,
    VLLM,
    AsyncLLM,
    Completion,
    CompletionError,
    Example,
    HuggingFace,
    LiteLLM,
    LlamaCpp,
    Message,
    Metric,
    Models,
    OpenAIChat,
    Price,
    Request,
    ScriptedLLM,
)
from asktell_adapters.prompts import TEMPLATE, chat, check_fields, render

__all__ = [
    "LLM",
    "TEMPLATE",
    "VLLM",
    "AsyncLLM",
    "AsyncLLMEvaluator",
    "Completion",
    "CompletionError",
    "Example",
    "HuggingFace",
    "LLMEvaluator",
    "LiteLLM",
    "LlamaCpp",
    "Message",
    "Metric",
    "Models",
    "OpenAIChat",
    "Price",
    "Request",
    "ScriptedLLM",
    "chat",
    "check_fields",
    "render",
]
