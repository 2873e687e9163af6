"""Makes the pictures of the README from the real window: ``python docs/make_pictures.py [mnist.npz]``.

Trains a few short ``softmax`` runs (with the real MNIST if a file is named or CLEW_DATA is set, else with the built-in
digits) in a home folder of its own, and a race of ``linear-regression`` in another; then paints the window that shows
them, without a display. The picture of Windows is made by hand, with an X server:

    packaging/windows/python docs/make_pictures.py paint light first-run docs/images/windows-first-run.png
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from clew_gui.app import Program
    from clew_gui.session.session import Session

IMAGES = Path(__file__).parent / "images"
SIZE = 1440, 900
RACE_SIZE = 1760, 1040  # wide enough for curves and surface beside each other
RUNS = (
    ("--learning-rate", "0.02"),
    ("--learning-rate", "0.1"),
    ("--preset", "adam"),
    ("--preset", "slides"),
)
LONG = ("--preset", "long", "--evaluate-every", "1000")
MOVING_WIDTH, COLOURS, FRAMES, FRAME_MS, LAST_MS = 1100, 255, 24, 160, 3000
"""The picture that moves: wide enough to read, and below 1 MB."""
_LIMIT_S = 600
_WAIT_S = 120


def call(home: Path, *words: str) -> None:
    """Run a Python program with its own home folder and no display; raises ``CalledProcessError`` if it fails."""
    environ = os.environ | {"CLEW_HOME": str(home), "QT_QPA_PLATFORM": "offscreen"}
    subprocess.run([sys.executable, *words], env=environ, timeout=_LIMIT_S, check=True)


def paint(theme: Literal["light", "dark"], tab: str, file: str) -> None:
    """Paint one picture in a separate process: the window with all runs, their pictures, a race, or a guide."""
    from clew_gui.app import build_app
    from clew_gui.session.run_record import run_record
    from clew_gui.session.runs import read_heads, read_runs
    from clew_gui.session.session import Session
    from clew_gui.views.window.window_state import NoMemory
    from clew_shared.base.places import find_places
    from clew_shared.catalogue import load_builtin

    places = find_places()
    runs = read_runs(read_heads(() if tab == "guide" else places.runs.iterdir()), run_record(places))
    session = Session(places, load_builtin(), recorded=runs)
    exercise = {"run": "softmax", "pictures": "softmax", "race": "linear-regression"}.get(tab, "cnn")
    program = build_app(places, session=session, memory=NoMemory(), theme=theme, exercise=exercise)
    program.window.head.tabs.setCurrentIndex(0 if tab == "guide" else 1)
    if tab == "pictures":
        program.window.run_view.controls.pages.button("pictures").click()
    keep(program, session, file, RACE_SIZE if tab == "race" else SIZE)


def keep(program: Program, session: Session, file: str, size: tuple[int, int] = SIZE, select: str = "") -> None:
    """Show the window with all runs of ``session``, one of them selected, and write the picture of it."""
    from PySide6.QtCore import QTimer

    program.window.resize(*size)
    program.window.show()
    for run in session.runs:
        program.controller.show_curve(run, True)
    if select:
        program.controller.select(select)
    QTimer.singleShot(1500, program.app.quit)  # times are shown again every second
    program.app.exec()
    program.window.grab().save(file)
    program.window.close()
    program.close()


def paint_sites(theme: Literal["light", "dark"], file: str) -> None:
    """Paint the sites, with a preset that somebody fills in, in a separate process."""
    import msgspec
    from PySide6.QtWidgets import QApplication, QWidget

    from clew_gui.base.tokens import DARK, LIGHT
    from clew_gui.sites.presets import PRESETS
    from clew_gui.sites.store import site_store
    from clew_gui.views.sites.sites_dialog import SitesDialog
    from clew_gui.views.theme.parts import Appearance
    from clew_gui.views.theme.theme import apply, prepare
    from clew_shared.base.places import find_places

    app = QApplication(sys.argv[:1])
    prepare(app)
    store = site_store(find_places())
    for name in ("jureca", "minotauro", "davide"):
        store.save(name, msgspec.structs.replace(PRESETS[name], user="lab017"), replace=True)
    parent, worn = QWidget(), DARK if theme == "dark" else LIGHT
    dialog = SitesDialog(parent, Appearance(worn), store, ("login",))
    dialog.choose("jureca")
    apply(app, worn)
    dialog.show()
    app.processEvents()
    dialog.grab().save(file)
    dialog.close()


def paint_waiting(theme: Literal["light", "dark"], file: str) -> None:
    """Paint a run that waits in a site's queue beside recorded runs, in a separate process."""

    import msgspec

    from clew_gui.app import build_app
    from clew_gui.jobs.job import JobOrder, JobStage, JobStatus
    from clew_gui.schedulers.allocation import AllocationRequest
    from clew_gui.session.job_links import JobModel
    from clew_gui.session.run_record import run_record
    from clew_gui.session.runs import RunModel, read_heads, read_runs
    from clew_gui.session.session import Session
    from clew_gui.sites.presets import PRESETS
    from clew_gui.sites.store import site_store
    from clew_gui.views.window.window_state import NoMemory, WindowState
    from clew_shared.base.places import find_places
    from clew_shared.catalogue import load_builtin
    from clew_shared.spec import RunSpec

    places = find_places()
    site_store(places).save("jureca", msgspec.structs.replace(PRESETS["jureca"], user="lab017"), replace=True)
    runs = read_runs(read_heads(places.runs.iterdir()), run_record(places))
    session = Session(places, load_builtin(), recorded=runs)
    news = JobStatus(
        job="waiting",
        stage=JobStage.QUEUED,
        id="8021734",
        text="Other jobs come first. It is expected to begin at 09:52.",
    )
    order = JobOrder(job="waiting", site="jureca", allocation=AllocationRequest(gpus=1, time="01:00:00"))
    title, number = PRESETS["jureca"].title, len(session.runs) + 1
    spec = RunSpec(exercise="softmax", run="waiting", params={"optimizer": "nadam", "learning_rate": 0.001})
    run = RunModel(spec, number, places.runs, title)
    run.job = news
    session.runs = {**session.runs, run.id: run}
    session.jobs = {"waiting": JobModel(1, order, title, news)}
    state = WindowState(told_runs_go_on=True, place="site:jureca", asked={"jureca": {"gpus": 1}})
    program = build_app(places, session=session, memory=NoMemory(state), theme=theme, exercise="softmax")
    keep(program, session, file, select=run.id)


def paint_node(theme: Literal["light", "dark"], file: str) -> None:
    """Paint a held node with the programs open on it, its run, and a site that needs a login, in a separate process."""
    import time

    import msgspec

    from clew_gui.app import build_app
    from clew_gui.jobs.job import JobOrder, JobStage, JobStatus
    from clew_gui.schedulers.allocation import AllocationRequest
    from clew_gui.session.job_links import JobModel
    from clew_gui.session.links.inbox import LinkState, LinkStatus
    from clew_gui.session.run_record import run_record
    from clew_gui.session.runs import read_heads, read_runs
    from clew_gui.session.session import Session
    from clew_gui.sites.presets import PRESETS
    from clew_gui.sites.store import site_store
    from clew_gui.ssh.prompts import NEEDS_PERSON
    from clew_gui.views.sites.services import NodeServices, ServiceStatus
    from clew_gui.views.window.window_state import NoMemory, WindowState
    from clew_shared.base.places import find_places
    from clew_shared.base.problem import Problem
    from clew_shared.catalogue import load_builtin

    class Open(NodeServices):
        """Jupyter is open on the node."""

        def statuses(self) -> dict[str, ServiceStatus]:
            """That of the held node."""
            return {"node": ServiceStatus("Jupyter is open.", "http://")}

    places, now = find_places(), time.time()
    for name in ("jureca", "davide"):
        site_store(places).save(name, msgspec.structs.replace(PRESETS[name], user="lab017"), replace=True)
    runs = read_runs(read_heads(places.runs.iterdir()), run_record(places))
    session = Session(places, load_builtin(), recorded=runs)
    asked = AllocationRequest(gpus=1, time="01:00:00")
    held = JobStatus(
        job="node", stage=JobStage.RUNNING, id="8021734", starts=now - 780, until=now + 2820, nodes="jrc0042"
    )
    other = JobStatus(
        job="other", stage=JobStage.RUNNING, id="51377", starts=now - 300, until=now + 3300, nodes="davide17"
    )
    session.jobs = {
        "node": (ours := JobModel(1, JobOrder(job="node", site="jureca", allocation=asked, hold=True), "JURECA", held)),
        "other": (locked := JobModel(2, JobOrder(job="other", site="davide", allocation=asked), "D.A.V.I.D.E.", other)),
    }
    ours.link = LinkStatus(LinkState.LIVE, now, "", link="node")
    locked.locked = Problem(NEEDS_PERSON, "The connection is gone, and the site asks for a password.", "Log in.")
    run = [*session.runs.values()][-1]
    run.where, run.job = "JURECA", msgspec.structs.replace(held, text="The job is running.")
    state = WindowState(told_runs_go_on=True, place="job:node")
    program = build_app(places, session=session, memory=NoMemory(state), theme=theme, exercise="softmax")
    program.sites.nodes.services = Open(program.window, places.private)
    program.sites.nodes.show()
    keep(program, session, file, select=run.id)


def paint_cluster(theme: Literal["light", "dark"], file: str) -> None:
    """Paint a run with parameter servers on this computer, one worker slowed and one killed, in a separate process."""
    from clew_gui.app import build_app
    from clew_gui.views.tabs.cluster import ClusterTab
    from clew_gui.views.window.window_state import NoMemory, WindowState
    from clew_shared.base.places import find_places
    from clew_shared.journal.lifecycle import TERMINAL
    from clew_shared.spec import RunSpec

    places, data = find_places(), "" if "CLEW_DATA" in os.environ else "digits"
    program = build_app(places, memory=NoMemory(WindowState(told_runs_go_on=True)), theme=theme, exercise="ps-lab")
    spec = RunSpec(exercise="ps-lab", data=data, strategy="parameter-server", options={"workers": 3})
    spec.params["steps"] = 1_000_000
    program.window.resize(*SIZE)
    program.window.show()
    wait(program, lambda: program.window.next_run.run.isEnabled())
    program.controller.starter.start((spec,))
    wait(
        program,
        lambda: (run := program.controller.model.run()) is not None and run.history.updates.counts.applied > 400,
    )
    program.tab(ClusterTab).open()
    view, run = program.tab(ClusterTab), program.controller.model.run()
    if run is not None:
        taken = run.history.updates.counts
        view.rows["worker", 1].speed.button("5").click()
        wait(program, lambda: run.history.updates.counts.applied > taken.applied + 200)
        view.rows["worker", 2].kill.click()
        wait(program, lambda: view.events.item(0).text().endswith("started again"))
        seen = run.history.updates.counts
        wait(program, lambda: run.history.updates.counts.applied > seen.applied + 80)
        view.events.itemActivated.emit(view.events.item(1))
        program.app.processEvents()
        program.window.grab().save(file)
        program.actions.runs.stop(now=True)
        wait(program, lambda: run.state in TERMINAL)
    program.window.close()
    program.close()
    end_agent()


def paint_first_run(theme: Literal["light", "dark"], file: str) -> None:
    """Paint the window that a student sees after the first click: *Linear regression* is run and drawn, the window is
    closed and opened again, and the run is there. In a separate process, on any system."""
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    from clew_gui.app import build_app
    from clew_gui.views.window.window_state import NoMemory, WindowState
    from clew_shared.base.places import find_places

    for opened in range(2):
        program = build_app(
            find_places(),
            memory=NoMemory(WindowState(told_runs_go_on=True)),
            theme=theme,
            exercise="linear-regression",
        )
        program.window.resize(*SIZE)
        program.window.show()
        if not opened:
            wait(program, program.window.next_run.run.isEnabled)
            QTest.mouseClick(program.window.next_run.run, Qt.MouseButton.LeftButton)
        wait_until_drawn(program)
        program.window.grab().save(file)
        program.window.close()
        program.close()
    end_agent()


def paint_moving(theme: Literal["light", "dark"], file: str) -> None:
    """Record the race of recorded runs as its steps go by, as a picture that moves (APNG), in a separate process."""
    from PIL import Image
    from PySide6.QtCore import QBuffer, Qt
    from PySide6.QtTest import QTest

    from clew_gui.app import build_app
    from clew_gui.session.run_record import run_record
    from clew_gui.session.runs import read_heads, read_runs
    from clew_gui.session.session import Session
    from clew_gui.views.window.window_state import NoMemory
    from clew_shared.base.places import find_places
    from clew_shared.catalogue import load_builtin

    places = find_places()
    session = Session(places, load_builtin(), recorded=read_runs(read_heads(places.runs.iterdir()), run_record(places)))
    program = build_app(places, session=session, memory=NoMemory(), theme=theme, exercise="linear-regression")
    program.window.head.tabs.setCurrentIndex(1)
    program.window.resize(*RACE_SIZE)
    program.window.show()
    for run in session.runs:
        program.controller.show_curve(run, True)
    slider, frames = program.window.run_view.plots.replay.slider, []
    QTest.qWait(1500)  # times are shown again every second
    for place in range(FRAMES + 1):
        slider.setValue(round(slider.maximum() * (place / FRAMES) ** 2))
        QTest.qWait(100)
        buffer = QBuffer()
        shot = program.window.grab().scaledToWidth(MOVING_WIDTH, Qt.TransformationMode.SmoothTransformation)
        shot.save(buffer, "PNG")
        frames.append(Image.open(io.BytesIO(buffer.data().data())).convert("RGB"))
    colours = frames[-1].quantize(COLOURS)
    frames = [frame.quantize(COLOURS, palette=colours, dither=Image.Dither.NONE) for frame in frames]
    shown = [FRAME_MS] * FRAMES + [LAST_MS]
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=shown, loop=0, optimize=True)
    program.window.close()
    program.close()


def wait_until_drawn(program: Program) -> None:
    """Let the window run until its run has finished and its last step is drawn."""
    from clew_shared.journal.lifecycle import TERMINAL

    def is_drawn() -> bool:
        run, said = program.controller.model.run(), program.window.run_view.plots.canvas.accessibleDescription()
        return run is not None and run.state in TERMINAL and f"at step {run.history.fold.step - 1}" in said

    wait(program, is_drawn)


def end_agent() -> None:
    """End this computer's agent, which outlives the window, with what it has prepared for another run."""
    import psutil

    from clew_gui.targets.local_agent import find_agent
    from clew_shared.base import operating_system
    from clew_shared.base.places import find_places

    agent = find_agent(find_places())
    if agent is not None:
        process = psutil.Process(agent.pid)
        operating_system.ask_to_stop(agent.pid)
        process.wait(_WAIT_S)


def wait(program: Program, done: Callable[[], bool]) -> None:
    """Let the window run until a condition holds; raises ``TimeoutError`` if that takes minutes."""
    end = time.monotonic() + _WAIT_S
    while not done():
        if time.monotonic() > end:
            raise TimeoutError("the run for the picture makes no progress")
        program.app.processEvents()
        time.sleep(0.02)


def main() -> None:
    """Train, then paint."""
    painters = {
        "sites": paint_sites,
        "waiting": paint_waiting,
        "node": paint_node,
        "cluster": paint_cluster,
        "first-run": paint_first_run,
        "moving": paint_moving,
    }
    if sys.argv[1:2] == ["paint"] and sys.argv[3] in painters:
        painters[sys.argv[3]]("dark" if sys.argv[2] == "dark" else "light", sys.argv[4])
        return
    if sys.argv[1:2] == ["paint"]:
        paint("dark" if sys.argv[2] == "dark" else "light", *sys.argv[3:5])
        return
    data = ("--data", str(Path(sys.argv[1]).absolute())) if len(sys.argv) > 1 else ()
    if not data and "CLEW_DATA" not in os.environ:
        data = ("--data", "digits")
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clew-pictures-") as folder:
        home = Path(folder)
        for words in RUNS:
            call(home, "-m", "clew_gui", "run", "softmax", *words, *data)
        call(home / "pictures", "-m", "clew_gui", "run", "softmax", *LONG, *data)
        call(home / "race", "-m", "clew_gui", "race", "linear-regression")
        call(home / "race", __file__, "paint", "light", "race", str(IMAGES / "race-light.png"))
        call(home / "race", __file__, "paint", "light", "moving", str(IMAGES / "race-moving.png"))
        for theme in ("light", "dark"):
            call(home / "pictures", __file__, "paint", theme, "pictures", str(IMAGES / f"pictures-{theme}.png"))
        call(home / "cluster", __file__, "paint", "light", "cluster", str(IMAGES / "cluster-light.png"))
        shown = ("run", "guide", "sites", "waiting", "node")
        for tab in shown:
            call(home, __file__, "paint", "light", tab, str(IMAGES / f"{tab}-light.png"))


if __name__ == "__main__":
    main()
