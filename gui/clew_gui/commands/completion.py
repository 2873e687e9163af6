"""``clew completion``: what Tab offers in bash, zsh and fish. The shell asks the command itself, so that exercises,
runs and sites are those of this computer, and options those of this version.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterable, Sequence

from clew_gui.commands.context import OK, CommandContext, Parser
from clew_gui.commands.why import explanations
from clew_shared.base.problem import ProblemError

_SCRIPTS = {
    "bash": """_clew() {
    local IFS=$'\\n'
    COMPREPLY=($(compgen -W "$(clew completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- \\
        "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _clew clew""",
    "zsh": """autoload -Uz compinit && compinit
_clew() {
    local -a found
    found=("${(@f)$(clew completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -a found
    _files
}
compdef _clew clew""",
    "fish": """function _clew
    clew completion --words (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null
end
complete -c clew -a '(_clew)'""",
}
_WHERE = {
    "bash": 'eval "$(clew completion bash)"      in ~/.bashrc',
    "zsh": 'eval "$(clew completion zsh)"       in ~/.zshrc',
    "fish": "clew completion fish | source       in ~/.config/fish/config.fish",
}
_RUNS = ("show", "compare", "note", "verify", "export", "resume", "attach")
_EXERCISES = ("run", "race", "scaling", "catalogue", "code")


def completion(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew completion SHELL`` prints the script; with ``--words`` what may come for the last word."""
    if argv and argv[0] == "--words":
        for word in candidates(context, list(argv[1:])):
            context.say(word)
        return OK
    lines = "\n".join(f"  {text}" for text in _WHERE.values())
    parser = Parser(
        "clew completion", f"Print what completes commands, options, exercises and runs with Tab:\n\n{lines}"
    )
    parser.add_argument("shell", choices=sorted(_SCRIPTS), help="your shell")
    context.say(_SCRIPTS[parser.parse_args(list(argv)).shell])
    return OK


def candidates(context: CommandContext, words: Sequence[str]) -> list[str]:
    """Returns what may complete the last of ``words`` (which may be empty), after those before it."""
    from clew_gui.commands.main import COMMANDS  # it imports this module by name

    names = [command.name for command in COMMANDS]
    start, command = words[-1] if words else "", words[0] if words else ""
    if len(words) <= 1:
        return _beginning(start, [*names, "--help", "--version"])
    if command not in names:
        return []
    if start.startswith("-"):
        return _beginning(start, _options(context, words[:-1]))
    return _beginning(start, _values(context, command, words[-2]))


def _beginning(start: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(start)]


def _values(context: CommandContext, command: str, before: str) -> list[str]:
    """Names of what the word after ``before`` can be."""
    if before == "--site":
        return _quietly(lambda: _sites(context))
    if before in _RUN_OPTIONS or (command in _RUNS and (not before.startswith("-"))):
        return _quietly(lambda: ["last", *_numbers(context)])
    if command in _EXERCISES and before == command:
        return _quietly(lambda: _exercises(context))
    if before == "why":
        return list(explanations())
    return []


_RUN_OPTIONS = ("--baseline",)


def _numbers(context: CommandContext) -> list[str]:
    from clew_gui.commands.find import kept_runs

    return [str(run.number) for run in reversed(kept_runs(context.places))]


def _exercises(context: CommandContext) -> list[str]:
    from clew_gui.commands.agent_program import cards

    return [card.id for card in cards(context.places).exercises]


def _sites(context: CommandContext) -> list[str]:
    from clew_gui.sites.store import site_store

    return list(site_store(context.places).names())


def _quietly(find: Callable[[], list[str]]) -> list[str]:
    """Offers nothing if the list cannot be made: a message would appear in the middle of the line being typed."""
    try:
        return find()
    except (ProblemError, OSError):
        return []


def _options(context: CommandContext, words: Sequence[str]) -> list[str]:
    """The options of a command, as its own help lists them; for ``clew run EXERCISE`` with that exercise's flags."""
    from clew_gui.commands.main import command_function

    exercise = [word for word in words[1:2] if words[0] in _EXERCISES and not word.startswith("-")]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit, ProblemError):
        command_function(words[0])(context, [*exercise, "--help"])
    return list(dict.fromkeys(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", said.getvalue())))
