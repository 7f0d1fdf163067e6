"""LLMs behind one interface: hosted APIs, and models on this machine."""

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
from asktell_adapters.llms.models import Models
from asktell_adapters.llms.openai import OpenAIChat
from asktell_adapters.llms.scripted import ScriptedLLM
from asktell_adapters.llms.vllm import VLLM

__all__ = [
    "LLM",
    "VLLM",
    "AsyncLLM",
    "Completion",
    "CompletionError",
    "Example",
    "HuggingFace",
    "LiteLLM",
    "LlamaCpp",
    "Message",
    "Metric",
    "Models",
    "OpenAIChat",
    "Price",
    "Request",
    "ScriptedLLM",
]
