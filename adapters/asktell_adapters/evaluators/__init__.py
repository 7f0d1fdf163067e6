"""LLMs, and the evaluators that score prompts with them."""

from asktell_adapters.evaluators.base import (
    LLM,
    SYSTEM_INSTRUCTION,
    AsyncLLM,
    Completion,
    CompletionError,
    Example,
    Message,
    Metric,
    Request,
)
from asktell_adapters.evaluators.chat_api import Price
from asktell_adapters.evaluators.huggingface import HuggingFace
from asktell_adapters.evaluators.llama_cpp import LlamaCpp
from asktell_adapters.evaluators.llm import TEMPLATE, AsyncLLMEvaluator, LLMEvaluator, render
from asktell_adapters.evaluators.openai import OpenAIChat
from asktell_adapters.evaluators.scripted import ScriptedLLM
from asktell_adapters.evaluators.vllm import VLLM

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
    "LlamaCpp",
    "Message",
    "Metric",
    "OpenAIChat",
    "Price",
    "Request",
    "ScriptedLLM",
    "render",
]
