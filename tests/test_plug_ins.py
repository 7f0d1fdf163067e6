"""Methods, LLMs, metrics and formats of other packages, by their names."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import asktell
from asktell import BestFeasible, ConfigError, InvalidArgumentError, Selector
from asktell.extend import BuiltIn, Registry
from asktell_adapters.cli.main import main
from asktell_adapters.config import load_config
from asktell_adapters.config.tracker import read_tracker
from asktell_adapters.finished import read_results
from tests.command_line import cli
from tests.plays import play
from tests.plug_ins import TEMPLATE, install, install_template

METHOD = """
from asktell.extend import AbstractMethod, events

class Once(AbstractMethod):
    def __init__(self, {arguments}):
        {body}

    def decide(self, state):
        if not state.decisions:
            return events.Decided(0, pulls=1)
        gone = [events.Departure.of(arm, arm == 0, "first", None) for arm in state.active.tolist()]
        return events.Decided(1, tuple(gone), finished=True, answer=(0,))

    def answer(self, state):
        return [0]
"""
ONCE = METHOD.format(arguments="share=0.5", body="self.share = share")
CONFIG = """
budget = 12
method = "equally"
[prompts]
texts = ["Say it.", "Say it, please"]
[data]
file = "data.csv"
input = "input"
reference = false
[model]
type = "parrot"
model = "grey"
words = 5
[metrics.polite]
metric = "politeness"
word = "please"
[goal]
maximize = "polite"
"""


def selector(method: Any = "once") -> Selector:
    return Selector(["a", "b"], BestFeasible("score"), 10, method, examples=10)


def configuration(folder: Path, text: str = CONFIG) -> Path:
    (folder / "data.csv").write_text("input\n" + "\n".join("abcdefgh") + "\n")
    (folder / "run.toml").write_text(
        text.replace("[model]", '[model]\ntemplate = "{input} {prompt}"')
    )
    return folder / "run.toml"


def test_a_command_runs_with_a_package(site: Path, tmp_path: Path) -> None:
    install_template(site)
    file = configuration(tmp_path)
    said = cli(f"run {file} --no-progress --yes")
    assert "Say it, please" in said.out
    folder = tmp_path / "run"
    with asktell.Study.open(str(folder / "study.db"), "run") as study:
        assert str(study.method) == "Equally(most=20)"
        assert study.done
    (tmp_path / "scores.json").write_text(
        json.dumps({"parrot": {"old": {"1": 0, "2": 0}, "new": {"1": 1, "2": 1}}})
    )
    said = cli(f"analyze {tmp_path / 'scores.json'} --maximize score")
    assert said.out.startswith("Read 2 candidates (keys old, new) x 2 examples")


def test_the_template_passes_its_tests(site: Path) -> None:
    install_template(site)
    test = site / "test_asktell_parrot.py"
    test.write_text((TEMPLATE / test.name).read_text())
    options = ["-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    code = f"import sys; sys.path[:0] = {[str(site), *sys.path]!r}; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *options, str(test)],
        capture_output=True,
        text=True,
        cwd=site,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_are_listed_with_those_of_packages(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install_template(site)
    with pytest.raises(InvalidArgumentError, match=r"'gege', 'equally'\].*did you mean 'equally'"):  # fmt: skip
        selector("equaly")
    wrong = configuration(tmp_path, CONFIG.replace('"parrot"', '"parot"'))
    with pytest.raises(ConfigError, match=r"'vllm', 'parrot'.*mean 'parrot'"):
        load_config(wrong)
    wrong = configuration(tmp_path, CONFIG.replace('"politeness"', '"politness"'))
    with pytest.raises(ConfigError, match=r"'preference', 'politeness'"):
        load_config(wrong)
    with pytest.raises(SystemExit):
        main(["init", "--help"])
    assert "parrot" in capsys.readouterr().out
    path = tmp_path / "new.toml"
    cli(f"init {path} --kind parrot --yes")
    assert "# Needs: pip install asktell-parrot\n" in path.read_text()
    assert 'model = "parrot"' in path.read_text()


def test_names_are_listed_without_an_import(site: Path) -> None:
    install(site, "loud", {"asktell.methods": {"loud": "loud:X"}}, loud="raise SystemExit(3)")  # fmt: skip
    with pytest.raises(InvalidArgumentError, match="'loud'"):
        selector("lout")
    assert "loud" not in sys.modules


def test_options_are_checked(site: Path, tmp_path: Path) -> None:
    install_template(site)
    for old, new, message in [
        ("words = 5", "word = 5", r"unknown key 'word' in \[model\]. Did you mean 'words'"),
        ("words = 5", 'words = "five"', r"'words' in \[model\] must be a whole number, got 'five'"),
        ('word = "please"', "word = 1", r"'word' in \[metrics.polite\] must be a text"),
        ('word = "please"', "words = 1", r"unknown key 'words' in \[metrics.polite\]"),
    ]:  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            load_config(configuration(tmp_path, CONFIG.replace(old, new)))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("import no_such_module", "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("pass", "cannot be imported: AttributeError: module 'odd' has no attribute 'X'"),
        ("X = 3", "cannot be used: it must be a class derived from asktell.extend.AbstractMethod, got 3"),
        ("class X: pass", "cannot be used: it must be a class derived from"),
        ("from asktell.extend import AbstractMethod as A\nclass X(A): pass", "cannot be used: TypeError: .*abstract"),
        (METHOD.format(arguments="share", body="pass") + "X = Once", "cannot be used: TypeError: .*'share'"),
        (METHOD.format(arguments="", body="1 / 0") + "X = Once", "cannot be used: ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_a_broken_method_is_named_with_its_package(
    site: Path, code: str, message: str
) -> None:
    install(site, "their-odd", {"asktell.methods": {"odd": "odd:X"}}, odd=code)
    what = r"The plug-in 'odd' \(odd:X, in the group asktell.methods\) of the package 'their-odd' "
    with pytest.raises(InvalidArgumentError, match=what + message + r".*uninstall the package"):  # fmt: skip
        selector("odd")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('no')", "cannot be imported: ValueError: no"),
        ("X = 3", "it must be a class of LLMs, got 3"),
        ("def X(model): return 3", "it must make an object with complete.* got 3"),
        ("def X(model): raise ValueError('no')", "cannot be used: ValueError: no"),
        ("def X(): pass", "cannot be used: TypeError"),
        ("def X(model, call: 'NoSuchName'): pass", "cannot be used: NameError"),
    ],
)
def test_a_broken_llm_is_named_with_its_package(
    site: Path, tmp_path: Path, code: str, message: str
) -> None:
    install_template(site)
    install(site, "their-odd", {"asktell.llms": {"odd": "odd:X"}}, odd=code)
    text = CONFIG.replace('"parrot"', '"odd"').replace("words = 5\n", "")
    with pytest.raises(ConfigError, match=r"run.toml, \[model\]: .*'their-odd' .*" + message):  # fmt: skip
        load_config(configuration(tmp_path, text)).driven()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('no')", "cannot be imported: ValueError: no"),
        ("X = 3", "it must be a metric: a function .* got 3"),
        ("class X: pass", "it must make a metric: a function .* got <"),
        ("class X:\n    def __init__(self):\n        1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_broken_metric_is_named_with_its_package(
    site: Path, tmp_path: Path, code: str, message: str
) -> None:
    install_template(site)
    install(site, "their-odd", {"asktell.metrics": {"odd": "odd:X"}}, odd=code)
    text = CONFIG.replace('"politeness"', '"odd"').replace('word = "please"\n', "")
    with pytest.raises(ConfigError, match=r"run.toml.*'their-odd' .*" + message):
        load_config(configuration(tmp_path, text))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module", "cannot be imported: ModuleNotFoundError"),
        ("X = dict", "it must be a class with `name`, `recognizes` and `read`"),
        ("X = 3", "cannot be used: TypeError: 'int' object is not callable"),
    ],
)
def test_a_broken_reader_is_named_with_its_package(
    site: Path, code: str, message: str
) -> None:
    install(site, "their-odd", {"asktell.readers": {"odd": "odd:X"}}, odd=code)
    (site / "a.csv").write_text("id,old,new\na,1,0\n")
    with pytest.raises(InvalidArgumentError, match="'their-odd' .*" + message):
        read_results([site / "a.csv"])


def test_a_function_is_a_metric_without_options(site: Path, tmp_path: Path) -> None:
    code = "def count(completion, example):\n    return len(completion.text)\ncount.needs_references = True"
    install_template(site)
    install(site, "count", {"asktell.metrics": {"count": "count:count"}}, count=code)
    text = CONFIG.partition("[metrics")[0] + "[metrics]\ncount = true\n[goal]\nmaximize = 'count'"  # fmt: skip
    with pytest.raises(ConfigError, match="'count' needs references"):
        load_config(configuration(tmp_path, text))
    text = text.replace("reference = false", 'reference = "input"')
    assert list(load_config(configuration(tmp_path, text)).metrics) == ["count"]


def test_a_kind_of_llm_may_take_the_price_and_the_concurrency(
    site: Path, tmp_path: Path
) -> None:
    code = (
        "from asktell_adapters.evaluators import Completion\n"
        "class Dear:\n"
        "    concurrency = 3\n"
        "    def __init__(self, model, concurrency, price=None, temperature=None, *, title: str = 'eu', **others):\n"
        "        self.got = model, concurrency, price.input, temperature, title, others\n"
        "    def complete(self, requests):\n"
        "        return [Completion('please') for _ in requests]\n"
    )
    install_template(site)
    install(site, "dear", {"asktell.llms": {"dear": "dear:Dear"}}, dear=code)
    text = CONFIG.replace('"parrot"', '"dear"').replace(
        "words = 5",
        "price = { input = 2.0, output = 3.0 }\ntemperature = 0.5\ntitle = 'us'",
    )
    config = load_config(configuration(tmp_path, text))
    assert config.concurrency == 3
    assert config.models is not None
    (table,) = config.models.tables.values()
    assert pickle.loads(pickle.dumps(table)) == table
    evaluator = config.driven()
    assert evaluator.llm.got == ("grey", 3, 2.0, None, "us", {})


def test_a_built_in_name_wins(site: Path, tmp_path: Path) -> None:
    code = "raise AssertionError('imported')"
    points = {
        "asktell.methods": {"race": "thief:X"},
        "asktell.llms": {"openai": "thief:X"},
        "asktell.metrics": {"token_f1": "thief:X"},
        "asktell.readers": {"table": "thief:X"},
    }
    install(site, "thief", points, thief=code)
    assert selector("race").method == asktell.Race()
    text = CONFIG.replace('"parrot"', '"openai"').replace("words = 5\n", "")
    text = text.replace('"equally"', '"race"').replace('"politeness"', '"token_f1"')
    text = text.replace('word = "please"\n', "").replace("reference = false", 'reference = "input"')  # fmt: skip
    assert load_config(configuration(tmp_path, text)).models is not None
    (site / "a.csv").write_text("id,old,new\na,1,0\nb,1,1\n")
    assert len(read_results([site / "a.csv"]).by_name) == 2
    with pytest.raises(InvalidArgumentError) as error:
        selector("rase")
    assert str(error.value).count("'race'") == 2  # in the list, and as the suggestion
    assert "thief" not in sys.modules


def test_two_packages_with_a_name_are_both_named(site: Path) -> None:
    for package in ("one", "two"):
        install(site, package, {"asktell.methods": {"once": f"{package}:Once"}}, **{package: ONCE})  # fmt: skip
    message = r"'one' and 'two' both add the name 'once' to the group asktell.methods. Uninstall"
    with pytest.raises(InvalidArgumentError, match=message):
        selector()


def test_a_built_in_entry_says_what_to_install(site: Path) -> None:
    built_in = {"here": BuiltIn("here:X", "mlflow"), "gone": BuiltIn("gone:X", "wandb")}
    registry: Registry[Any] = Registry("asktell.none", built_in, lambda name, made: [made])  # fmt: skip
    (site / "here.py").write_text("X = 3")
    assert registry["here"] == [3]
    assert registry["here"] is registry["here"]
    with pytest.raises(asktell.MissingExtraError, match=r"pip install 'asktell\[wandb\]"):  # fmt: skip
        registry["gone"]
    with pytest.raises(KeyError):
        registry["other"]
    assert registry.names() == ["here", "gone"]


def test_what_a_plug_in_prints_goes_to_standard_error(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "print('hello')\n" + METHOD.format(arguments="", body="print('again')")
    install(site, "loud", {"asktell.methods": {"once": "loud:Once"}}, loud=code)
    selector()
    assert capsys.readouterr() == ("", "hello\nagain\n")


def test_damaged_metadata_are_named(site: Path) -> None:
    install(site, "once", {"asktell.methods": {"once": "once:Once"}}, once=ONCE)
    (site / "bad-1.dist-info").mkdir()
    (site / "bad-1.dist-info" / "entry_points.txt").write_text("[asktell.methods]\nodd\n")  # fmt: skip
    with pytest.raises(InvalidArgumentError, match=r"cannot be read.*damaged"):
        selector()
    assert selector("race").method == asktell.Race()


def test_damaged_metadata_do_not_keep_a_selection_from_being_saved(site: Path) -> None:
    install(site, "once", {"asktell.methods": {"once": "once:Once"}}, once=ONCE)
    mine = selector()
    (site / "bad-1.dist-info").mkdir()
    (site / "bad-1.dist-info" / "entry_points.txt").write_text("[asktell.methods]\nodd\n")  # fmt: skip
    assert json.loads(mine.to_json())["method"] == {
        "own": "Once",
        "parameters": {"share": 0.5},
    }


def test_a_package_without_metadata_is_named_by_its_module(site: Path) -> None:
    install(site, "once", {"asktell.methods": {"once": "once_module:Once"}})
    (site / "once-1.0.dist-info" / "METADATA").unlink()
    with pytest.raises(InvalidArgumentError, match="of the package 'once_module' cannot be imported"):  # fmt: skip
        selector()


# Trackers


TRACKER = """
from typing import Any
from asktell_adapters.tracking.core import Extent, Tracker

class Kept(Tracker):
    def __init__(self, error, *, run: Any = None, interval: float = 0.0, fail: bool = False):
        super().__init__(interval=interval)
        self.file, self.fail = error, fail

    def _open(self, selection):
        print("opened", selection.name)
        return Extent()

    def _write(self, view, since):
        if self.fail:
            raise OSError("full")
        with open(self.file, "a") as out:
            out.writelines(f"{scored.number}\\n" for scored in view.evaluations(since.evaluations))
        yield view.extent

    def _finish(self, view):
        with open(self.file, "a") as out:
            out.write(f"selected {view.result.best.id}\\n")
"""


def tracked(site: Path, tmp_path: Path, options: str, code: str = TRACKER) -> Path:
    install_template(site)
    install(site, "kept", {"asktell.trackers": {"kept": "kept:Kept"}}, kept=code)
    return configuration(tmp_path, f"{CONFIG}[tracker]\ntype = 'kept'\n{options}")


def test_a_tracker_of_a_package_tracks_a_run(site: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    file = tracked(site, tmp_path, f"error = {str(kept)!r}")
    cli(f"run {file} --no-progress --yes")
    lines = kept.read_text().split("\n")
    assert lines == [*map(str, range(1, 13)), "selected 1", ""]
    # Another tracker is the same run
    file.write_text(file.read_text().partition("[tracker]")[0])
    assert "Say it, please" in cli(f"run {file} --no-progress --yes").out


def test_a_tracker_that_fails_ends_no_run(site: Path, tmp_path: Path) -> None:
    file = tracked(site, tmp_path, "error = 'x'\nfail = true")
    said = cli(f"run {file} --no-progress --yes")
    assert "Kept: full. The selection is not affected" in said.err
    assert "Say it, please" in said.out


def test_a_tracker_is_for_the_process_of_a_folder(site: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    file = tracked(site, tmp_path, f"error = {str(kept)!r}")
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    said = cli(f"run {file} --study {url} --no-progress --yes")
    assert "[tracker] is not used, because a study at a URL" in said.err
    assert not kept.exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("erro = 'x'", TRACKER, r"unknown key 'erro' in \[tracker\]. Did you mean 'error'"),
        ("error = 1\nrun = 'x'", TRACKER, r"unknown key 'run' in \[tracker\]"),
        ("error = 1\ninterval = 'x'", TRACKER, r"'interval' in \[tracker\] must be a finite number"),
        ("type = 'keep'", TRACKER, r"must be one of 'mlflow', 'wandb', 'kept' .did you mean 'kept'"),
        ("", TRACKER.replace("(Tracker)", "(object)"), "'kept' cannot be used: it must be a class derived from"),
        ("", "import nothing_at_all", "'kept' cannot be imported: ModuleNotFoundError"),
    ],
)  # fmt: skip
def test_a_wrong_tracker_is_refused(
    site: Path, tmp_path: Path, options: str, code: str, message: str
) -> None:
    file = tracked(site, tmp_path, options, code)
    if "type" in options:
        file.write_text(file.read_text().replace("type = 'kept'\n", ""))
    with pytest.raises(ConfigError, match=message):
        load_config(file)


def test_an_option_without_a_default_is_needed(site: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'error' is missing in \[tracker\]. Add it"):
        load_config(tracked(site, tmp_path, ""))


@pytest.mark.parametrize(("kind", "key"), [("mlflow", "experiment"), ("wandb", "project")])  # fmt: skip
def test_the_options_of_built_in_trackers(tmp_path: Path, kind: str, key: str) -> None:
    table = read_tracker(tmp_path / "a.toml", {"type": kind, key: "x", "interval": 2.0})
    assert table.model_dump(exclude_unset=True) == {"type": kind, key: "x", "interval": 2.0}  # fmt: skip


# Saved selections


def saved(site: Path) -> dict[str, Any]:
    install(site, "their-once", {"asktell.methods": {"once": "once:Once"}}, once=ONCE)
    data: dict[str, Any] = json.loads(selector().to_json())
    return data


def test_a_saved_method_is_found_by_its_name(site: Path) -> None:
    data = saved(site)
    assert data["method"] == {
        "own": "Once",
        "parameters": {"share": 0.5},
        "plug-in": {"name": "once", "package": "their-once"},
    }
    data["method"]["parameters"]["share"] = 0.25
    again = Selector.from_json(json.dumps(data))
    assert type(again.method).__module__ == "once"
    assert vars(again.method) == {"share": 0.25}
    assert json.loads(again.to_json()) == data


def test_a_method_may_be_passed_although_it_is_a_packages(site: Path) -> None:
    data = saved(site)
    method = selector().method
    assert Selector.from_json(json.dumps(data), method=method).method is method
    # A class that was moved to a package
    del data["method"]["plug-in"]
    assert Selector.from_json(json.dumps(data), method=method).method is method
    data["method"]["parameters"]["share"] = 1
    with pytest.raises(asktell.InvalidStateError, match="made with another method"):
        Selector.from_json(json.dumps(data), method=method)


def test_a_study_needs_no_method_of_a_package(site: Path, tmp_path: Path) -> None:
    install(site, "their-once", {"asktell.methods": {"once": "once:Once"}}, once=ONCE)
    place = str(tmp_path / "s.db")
    with asktell.Study.create(place, "s", selector()) as study:
        play(study, lambda _: 0.5)
        study.export(tmp_path / "s.txt")
    with asktell.Study.open(place, "s") as study:
        assert study.done
    with asktell.Study.import_(
        str(tmp_path / "t.db"), tmp_path / "s.txt", "t"
    ) as study:
        assert study.done


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"name": "twice"}, asktell.MissingMethodError, r"method 'twice' .* is not .* pip install their-once\."),
        ({"name": "os:system"}, asktell.MissingMethodError, "'os:system'"),
        ({"name": "race"}, asktell.MissingMethodError, "'race'"),
        ({"package": "another"}, asktell.MissingMethodError, "package 'another', which is not"),
        ({"name": "twice", "package": "x; rm -r ."}, asktell.InvalidStateError, "'x; rm -r .' is no name of a package"),
        ({"name": "twice", "package": "--index-url"}, asktell.InvalidStateError, "no name of a package"),
        ({"name": 3}, asktell.InvalidStateError, "name must be text"),
        ({"package": None}, asktell.InvalidStateError, "package must be text"),
    ],
)  # fmt: skip
def test_a_saved_name_chooses_only_among_plug_ins(
    site: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    data = saved(site)
    data["method"]["plug-in"] |= change
    with pytest.raises(error, match=message):
        Selector.from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"parameters": {"sharing": 1}}, "'their-once' cannot be made from its saved .*TypeError: .*'sharing'"),
        ({"parameters": 3}, "parameters must be a JSON object"),
        ({"parameters": {"share": {"type": "Popen"}}}, "unknown part 'Popen'"),
        ({"parameters": {"share": {"own": "Once", "parameters": {}}}}, "made with 'Once'. This is your own code"),
        ({"own": "Twice"}, r"It was Twice\(share=0.5\), but method is Once"),
        ({"plug-in": "once"}, "plug-in must be a JSON object"),
    ],
)  # fmt: skip
def test_parameters_of_another_form_are_refused(
    site: Path, method: dict[str, Any], message: str
) -> None:
    data = saved(site)
    data["method"] |= method
    with pytest.raises(asktell.InvalidStateError, match=message):
        Selector.from_json(json.dumps(data))


def test_a_package_that_became_broken_is_an_error_of_the_state(site: Path) -> None:
    install(site, "their-odd", {"asktell.methods": {"odd": "odd:X"}}, odd="1 / 0")
    data = saved(site)
    data["method"]["plug-in"] = {"name": "odd", "package": "their-odd"}
    with pytest.raises(asktell.InvalidStateError, match="'their-odd' cannot be imp"):
        Selector.from_json(json.dumps(data))
    # It does not keep a package's other methods from being saved
    points = {"asktell.methods": {"a": "once:Nothing", "b": "once:Once"}}
    install(site, "more", points)
    assert json.loads(selector("b").to_json())["method"]["plug-in"]["name"] == "b"
