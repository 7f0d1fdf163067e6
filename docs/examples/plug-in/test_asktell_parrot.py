"""The plug-ins pass asktell's contracts, and asktell finds them by their names."""

import json

import asktell_parrot
import pytest

import asktell
from asktell.testing.method_contract import MethodContract
from asktell.testing.metric_contract import MetricContract
from asktell_adapters.evaluators import Completion, Example
from asktell_adapters.finished import read_results
from asktell_adapters.testing.llm_contract import LLMContract


class TestEqually(MethodContract):
    @pytest.fixture
    def method(self):
        return asktell_parrot.Equally(most=4)


class TestParrot(LLMContract):
    refused = None  # it repeats messages of any length

    @pytest.fixture
    def llm(self):
        return asktell_parrot.Parrot("grey")


class TestPoliteness(MetricContract):
    @pytest.fixture
    def metric(self):
        return asktell_parrot.Politeness()

    @pytest.fixture
    def cases(self):
        return [
            (Completion(text), Example("Tea?")) for text in ("Yes, please", "No", "")
        ]


def test_results_are_read(tmp_path):
    scores = {"parrot": {"old": {"q1": 0.0}, "new": {"q1": 1.0}}}
    (tmp_path / "run.json").write_text(json.dumps(scores))
    results = read_results([tmp_path / "run.json"])
    assert (results.kind, list(results.by_name)) == ("parrot's results", ["old", "new"])


def test_a_saved_selection_needs_no_code():
    goal = asktell.BestFeasible("score")
    saved = asktell.Selector(["a", "b"], goal, 10, "equally").to_json()
    assert asktell.Selector.from_json(saved).method == asktell_parrot.Equally()
