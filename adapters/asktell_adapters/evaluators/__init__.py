"""Evaluators, which score prompts with an LLM or a program, and the LLMs themselves, hosted or on this machine."""

from asktell_adapters.evaluators.command import CommandEvaluator
from asktell_adapters.evaluators.llm import AsyncLLMEvaluator, LLMEvaluator
from asktell_adapters.llms.base import (
    LLM,
    AsyncLLM,
    Completion,
    CompletionError,
    Example,
    Message,
    Metric,
    Request,
)
from asktell_adapters.llms.chat_api import Price
from asktell_adapters.llms.huggingface import HuggingFace
from asktell_adapters.llms.litellm import LiteLLM
from asktell_adapters.llms.llama_cpp import LlamaCpp
from asktell_adapters.llms.meter import Meter
from asktell_adapters.llms.models import Models
from asktell_adapters.llms.openai import OpenAIChat
from asktell_adapters.llms.prompts import TEMPLATE, chat, check_fields, render
from asktell_adapters.llms.scripted import ScriptedLLM
from asktell_adapters.llms.vllm import VLLM

__all__ = [
    "LLM", "TEMPLATE", "VLLM", "AsyncLLM", "AsyncLLMEvaluator", "CommandEvaluator", "Completion", "CompletionError",
    "Example", "HuggingFace", "LLMEvaluator", "LiteLLM", "LlamaCpp", "Message", "Meter", "Metric", "Models",
    "OpenAIChat", "Price", "Request", "ScriptedLLM", "chat", "check_fields", "render",
]  # fmt: skip
