"""The menus: the words and keys of each entry, what it does, and why it cannot be used now.

Buttons, tooltips and the list of shortcuts come from the same lines. There is no entry that does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtGui import QAction

from clew_gui.views.actions.model import WindowModel
from clew_gui.views.actions.verbs import WindowActions
from clew_gui.views.presentation.menu_entries import Action, MenuActions
from clew_gui.views.runs.run_card import can_be_tried
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.spec import untraceable

MENUS: tuple[tuple[str, tuple[Action | None, ...]], ...] = (
    (
        "&Lab",
        (
            Action("find", "&Find an exercise", "Ctrl+K"),
            Action("next_exercise", "&Next exercise", "Ctrl+PgDown"),
            Action("previous_exercise", "&Previous exercise", "Ctrl+PgUp"),
            Action("reload", "Re&load own exercises", "F5", "Read the files of your folder again"),
            None,
            Action("courses", "&Courses…", "", "Open a teacher's course, follow another one, or leave one"),
            Action("share", "&Share with the class…", "", "What your teacher sees of your runs in this course"),
            None,
            Action("settings", "&Settings…", "Ctrl+,", role=QAction.MenuRole.PreferencesRole),
            Action("quit", "&Close the window", "Ctrl+Q", role=QAction.MenuRole.QuitRole),
        ),
    ),
    (
        "&Run",
        (
            Action("run", "&Run", "Ctrl+Return"),
            Action("race", "R&ace…", "Ctrl+R", "Race several optimizers from the same start"),
            Action("sweep", "S&weep…", "Ctrl+Shift+R", "Train once with each of many values"),
            Action("range", "Learnin&g-rate range test…", "", "One run in which the learning rate grows"),
            Action("predict", "Pr&edict first…", "Ctrl+Shift+P", "Say what you expect in the end, then run"),
            Action("slides", "Sli&des' values", "Ctrl+Shift+D"),
            Action("reuse", "&Use the selected run's settings", "Ctrl+E", "Put this run's values into the form"),
            None,
            Action("pause", "&Pause", "Ctrl+P", "Pause after the current block"),
            Action("rate", "&Learning rate…", "Ctrl+L", "Change it while the run goes on"),
            Action("trace", "Trace 20 steps", "", "Record what the operations of the next 20 steps do"),
            Action("stop", "&Stop after this block", "Ctrl+.", "Keep a checkpoint; to stop at once: Ctrl+Shift+."),
            Action("stop_now", "Stop &now", "Ctrl+Shift+."),
            Action("continue", "&Continue from the last checkpoint", "Ctrl+Shift+Return"),
            Action("try", "Tr&y it…", "F6", "See what the network makes of an image or of a code of your own"),
            None,
            Action("queue_next", "Run ne&xt", "Ctrl+Shift+N", "Start this run before all other waiting runs"),
            Action("queue_up", "Move up in the &queue", "Ctrl+Shift+Up", "Move this run one place up in the queue"),
            Action("queue_down", "Move do&wn in the queue", "Ctrl+Shift+Down", "Let the next run go first"),
            Action("unqueue", "&Take out of the queue", "Ctrl+Shift+X", "This run will not begin"),
            None,
            Action("show", "S&how in the plots", "Ctrl+D", checkable=True, several="S&how {} runs in the plots"),
            Action("pin", "Pin as &baseline", "Ctrl+B", checkable=True),
            Action("note", "Na&me, tags and note…", "F2", "Write a name, tags and a note", several="Tags of {} runs…"),
            Action("export_run", "Export this run as CS&V…", "Ctrl+Shift+E"),
            Action(
                "export_board",
                "Export for &TensorBoard…",
                "",
                "Write this run as TensorBoard reads it",
                several="Export {} runs for &TensorBoard…",
            ),
            Action("remove", "Re&move from the list", "Ctrl+Backspace", several="Re&move {} runs from the list"),
            Action("undo", "U&ndo", "Ctrl+Z"),
        ),
    ),
    (
        "&Cluster",
        (
            Action("sites", "&Sites…", "Ctrl+Shift+O", "Add, edit and test the machines that runs can go to"),
            None,
            Action("script", "Show the &job script…", "Ctrl+Shift+U", "Exactly what would be sent to the site"),
            Action("try_here", "&Try it here meanwhile", "Ctrl+T", "A short run with the same settings here meanwhile"),
            Action("hold", "&Hold a node…", "Ctrl+H", "Keep an allocation for many runs"),
            None,
            Action("jupyter", "Open J&upyter on the node", "Ctrl+J", "In the browser of this computer"),
            Action(
                "tensorboard",
                "Open Tensor&Board",
                "Ctrl+Shift+B",
                "Runs here and on sites, in the browser",
            ),
            Action("terminal", "Open a ter&minal on the node", "Ctrl+Shift+T", "In its own window"),
            None,
            Action("recordings", "Show a &recording…", "Ctrl+Shift+Y", "A cluster run, played step by step"),
            None,
            Action("jobs", "J&obs…", "Ctrl+Shift+J", "The jobs on all sites, and the way to cancel them"),
            Action("log_in", "Log &in again", "Ctrl+I", "Log in where your runs are, to follow them"),
            Action("log_out", "Log o&ut", "", "End the logins to all sites; jobs go on"),
        ),
    ),
    (
        "&View",
        (
            Action("guide", "&Guide", "Ctrl+1", "Open the guide"),
            Action("work", "&Run", "Ctrl+2"),
            None,
            Action("log_scale", "&Log axes", "Ctrl+G", checkable=True),
            Action("whole_y", "&All of y", "Ctrl+Shift+G", checkable=True),
            Action("copy_picture", "&Copy the plots as a picture", "Ctrl+Shift+C"),
            Action("export_plots", "&Export the plots…", "Ctrl+Shift+S"),
            None,
            Action("lab_panel", "Show the &exercises", "F9", checkable=True),
            Action("form_panel", "Show the &next run", "F10", checkable=True),
            Action("runs_panel", "Show the runs and the l&og", "F8", checkable=True),
            Action("log", "&Log of the selected run", "Ctrl+7"),
            Action("details", "&Details of the selected run", "Ctrl+Shift+I"),
            None,
            Action("full_screen", "&Full screen", "F11", checkable=True),
            Action("theme", "Light or &dark", "Ctrl+Shift+L"),
            Action("reset_layout", "&Reset the layout"),
        ),
    ),
    (
        "&Help",
        (
            Action("tutorial", "&Tutorial", "", "The first hour with Clew, step by step"),
            Action("features", "&What Clew can do", "", "What few people find by themselves"),
            Action("shortcuts", "&Keyboard shortcuts", "F1"),
            Action("code", "Show the &code of this exercise", "Ctrl+U", "Show the file that runs"),
            Action("computer", "&This computer and its agent"),
            Action("about", "&About Clew", role=QAction.MenuRole.AboutRole),
        ),
    ),
)
HANDLERS: Mapping[str, Callable[[WindowActions], object]] = {
    "find": lambda do: do.find(),
    "next_exercise": lambda do: do.controller.step_exercise(1),
    "previous_exercise": lambda do: do.controller.step_exercise(-1),
    "reload": lambda do: do.reload_exercises(),
    "courses": lambda do: do.courses.choose(),
    "share": lambda do: do.courses.share(),
    "settings": lambda do: do.show_settings(),
    "quit": lambda do: do.window.close(),
    "run": lambda do: do.window.next_run.ask_run(),
    "race": lambda do: do.studies.ask_race(),
    "sweep": lambda do: do.studies.ask_sweep(),
    "range": lambda do: do.studies.ask_range(),
    "predict": lambda do: do.studies.ask_prediction(),
    "slides": lambda do: do.window.next_run.use_slides(),
    "reuse": lambda do: do.runs.reuse(),
    "pause": lambda do: do.runs.pause_or_resume(),
    "rate": lambda do: do.runs.change_live(),
    "trace": lambda do: do.runs.trace(),
    "stop": lambda do: do.runs.stop(),
    "stop_now": lambda do: do.runs.stop(True),
    "continue": lambda do: do.runs.ask_to_continue(),
    "try": lambda do: do.trying.ask(),
    "queue_next": lambda do: do.runs.run_next(),
    "queue_up": lambda do: do.runs.move(-1),
    "queue_down": lambda do: do.runs.move(1),
    "unqueue": lambda do: do.runs.leave_queue(),
    "note": lambda do: do.runs.write_note(),
    "export_run": lambda do: do.export_run(),
    "export_board": lambda do: do.export_board(),
    "remove": lambda do: do.runs.remove(),
    "undo": lambda do: do.window.messages.undo(),
    "sites": lambda do: do.sites.show_sites(),
    "script": lambda do: do.sites.show_script(),
    "try_here": lambda do: do.sites.try_here(),
    "hold": lambda do: do.sites.ask_hold(),
    "jupyter": lambda do: do.sites.nodes.open_here("jupyter"),
    "tensorboard": lambda do: do.sites.nodes.open_board(),
    "terminal": lambda do: do.sites.nodes.open_here("terminal"),
    "recordings": lambda do: do.recordings.ask(),
    "jobs": lambda do: do.sites.nodes.show_jobs(),
    "log_in": lambda do: do.sites.nodes.log_in_everywhere(),
    "log_out": lambda do: do.sites.nodes.log_out(),
    "guide": lambda do: do.window.show_tab(0),
    "work": lambda do: do.window.show_tab(1),
    "copy_picture": lambda do: do.copy_picture(),
    "export_plots": lambda do: do.window.run_view.plots.export("png"),
    "log": lambda do: do.show_log(),
    "details": lambda do: do.show_details(),
    "full_screen": lambda do: do.window.toggle_full_screen(),
    "theme": lambda do: do.toggle_theme(),
    "reset_layout": lambda do: do.window.reset_layout(),
    "tutorial": lambda do: do.show_tutorial(),
    "features": lambda do: do.show_features(),
    "shortcuts": lambda do: do.show_shortcuts(),
    "code": lambda do: do.show_code(),
    "computer": lambda do: do.show_computer(),
    "about": lambda do: do.show_about(),
}
"""What the entries do."""
SWITCHES: Mapping[str, Callable[[WindowActions, bool], object]] = {
    "show": lambda do, on: do.runs.show(on),
    "pin": lambda do, on: do.controller.pin(on),
    "log_scale": lambda do, on: do.window.run_view.controls.log.setChecked(on),
    "whole_y": lambda do, on: do.window.run_view.controls.whole.setChecked(on),
    "lab_panel": lambda do, on: do.window.fold("lab", not on),
    "form_panel": lambda do, on: do.window.fold("form", not on),
    "runs_panel": lambda do, on: do.window.fold("runs", not on),
}
"""What the entries do that are on or off."""


_OF_RUN = (
    *("reuse", "pause", "rate", "trace", "stop", "stop_now", "continue", "try", "queue_next", "queue_up", "queue_down"),
    *("unqueue", "show", "pin", "note", "export_run", "export_board", "remove", "try_here", "log", "details"),
)
"""The entries of the menus that are about the selected run."""


def why_not(model: WindowModel) -> dict[str, str]:
    """Says of each entry about the selected run why it cannot be done now; empty if it can."""
    run, card = model.run(), model.card
    if run is None:
        return dict.fromkeys(_OF_RUN, "No run is selected")
    over, trace = run.state in TERMINAL, untraceable(run.spec, card)
    ended, goes_on = ("This run has ended", "") if over else ("", "This run has not ended")
    silent = "The link to this run is silent" if run.link_stale else ""
    trains = "" if run.state in (RunState.RUNNING, RunState.PAUSED) else "The run is not training yet"
    steer = ended or silent or trains
    waits = silent or ("" if run.state is RunState.QUEUED else "This run does not wait in the queue")
    changes = "" if model.live_params() else "Nothing of this run can be changed while it trains"
    kept = "" if run.history.checkpoints else "This run has no checkpoint to continue from"
    done = "This run has done all of its steps" if run.state is RunState.FINISHED else ""
    sent = run.job is not None and not run.history.fold.attempt
    return dict.fromkeys(_OF_RUN, "") | {
        "pause": "A script cannot be paused" if card.kind == "script" else steer,
        "rate": steer or changes,
        "trace": steer or (trace.text if trace is not None else ""),
        "stop": ended or silent,
        "stop_now": ended,
        "continue": goes_on or done or kept,
        "try": "" if can_be_tried(run, card) else "This run has no checkpoint, so there is no trained network to try",
        "remove": goes_on,
        "pin": "" if run.spec.rate_range is None else "A range test is no baseline",
        "try_here": ended or ("" if sent else "Only while a run waits on a site"),
        "queue_next": waits or ("" if run.queue > 1 else "No run waits before this one"),
        "queue_up": waits or ("" if run.queue > 1 else "No run waits before this one"),
        "queue_down": waits or ("" if 0 < run.queue < model.waiting() else "No run waits behind this one"),
        "unqueue": waits,
    }


def join(menus: MenuActions, actions: WindowActions) -> None:
    """Lets every entry do what it says."""
    for name, act in HANDLERS.items():
        menus[name].triggered.connect(lambda _on=False, act=act: act(actions))
    for name, turn in SWITCHES.items():
        menus[name].triggered.connect(lambda on, turn=turn: turn(actions, on))
