"""Runs a Skillware skill: an object of its class gets the input, and what `execute` returns is the output.

Placed beside the skill by Skillbox. Where the skillware package is not installed, the one base class that skills import from it
is provided here.
"""

import asyncio
import importlib
import importlib.util
import inspect
import json
import os
import sys
import types


class BaseSkill:
    """As much of Skillware's base class as a skill that runs can use."""

    def __init__(self, config=None):
        self.config = config or {}

    def credential(self, key):
        value = self.config.get(key) or os.environ.get(key) or ""
        return str(value).strip() or None

    def validate_params(self, params):
        # Skillbox has checked the input against the manifest's parameters.
        return True


def provide_base():
    try:
        return importlib.import_module("skillware.core.base_skill").BaseSkill
    except ImportError:
        pass
    for name in ("skillware", "skillware.core", "skillware.core.base_skill"):
        module = types.ModuleType(name)
        module.__path__ = []
        sys.modules[name] = module
    sys.modules["skillware"].core = sys.modules["skillware.core"]
    sys.modules["skillware.core"].base_skill = sys.modules["skillware.core.base_skill"]
    sys.modules["skillware.core.base_skill"].BaseSkill = BaseSkill
    return BaseSkill


def load(path):
    spec = importlib.util.spec_from_file_location("skill", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["skill"] = module
    spec.loader.exec_module(module)
    return module


def find_class(module, base):
    def runs(value):
        return inspect.isclass(value) and value.__module__ == module.__name__ and (
            callable(getattr(value, "execute", None)) or callable(getattr(value, "aexecute", None)))

    classes = [value for value in vars(module).values() if runs(value)]
    chosen = [value for value in classes if issubclass(value, base)] or classes
    # A class that others are made from is not the one that is meant.
    chosen = [value for value in chosen if not any(value in other.__mro__[1:] for other in chosen)]
    if len(chosen) != 1:
        names = ", ".join(value.__name__ for value in chosen) or "none"
        sys.exit("skill.py must have exactly one class with execute(); it has: " + names)
    return chosen[0]


def main():
    # From here on it looks as if the skill's own file had been started.
    sys.argv = sys.argv[1:]
    path = sys.argv[0]
    sys.path[0] = os.path.dirname(path)
    base = provide_base()
    # The document lies beside the directory of input files, which is elsewhere where there is no sandbox.
    place = os.path.dirname(os.environ["SANDBOX_INPUT_DIR"].rstrip("/"))
    with open(os.path.join(place, "input.json"), encoding="utf-8") as file:
        params = json.load(file)
    if not isinstance(params, dict):
        sys.exit("the input of a Skillware skill must be a JSON object")
    skill = find_class(load(path), base)()
    execute = getattr(skill, "execute", None) or skill.aexecute
    result = execute(params)
    if inspect.isawaitable(result):
        async def finished():
            return await result

        result = asyncio.run(finished())
    output = json.dumps(result)
    with open(os.environ["SANDBOX_OUTPUT"], "w", encoding="utf-8") as file:
        file.write(output)


main()
