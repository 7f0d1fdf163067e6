"""Evaluators that score prompts with LLMs; the LLMs of `asktell_adapters.llms` can be had from here, too."""

from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms import (
    LLM,
    SYSTEM_INSTRUCTION,
    VLLM,
    AsyncLLM,
    Completion,
    CompletionError,
    Example,
    HuggingFace,
    LiteLLM,
    LlamaCpp,
    LlamaCppPython,
    Message,
    Metric,
    OpenAIChat,
    Price,
    Request,
    ScriptedLLM,
)
from asktell_adapters.prompts import TEMPLATE, chat, check_fields, render

__all__ = [
    "LLM",
    "SYSTEM_INSTRUCTION",
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
    "LlamaCppPython",
    "Message",
    "Metric",
    "OpenAIChat",
    "Price",
    "Request",
    "ScriptedLLM",
    "chat",
    "check_fields",
    "render",
]
