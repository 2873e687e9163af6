"""What is kept of the lines that a process printed before it died."""

from __future__ import annotations

from pathlib import Path

from clew_agent.node.child_output import tail

_STACK = "\n".join(f'  File "/agent/module_{number}.py", line {number} in call_{number}' for number in range(40))
_CRASH = f"""I0000 gpu_device.cc:2043] Created device GPU:0
F0000 cuda_solvers.cc:114] Check failed: cusolverDnCreate(&handle) == CUSOLVER_STATUS_SUCCESS (7 vs. 0)
Fatal Python error: Aborted

Thread 0x00007f01 (most recent call first):
{_STACK}

Current thread 0x00007f02 (most recent call first):
{_STACK}

Extension modules: msgspec._core, numpy._core._multiarray_umath, zmq.backend.cython._zmq (total: 90)
"""


def test_the_last_lines_are_kept_without_noise_and_never_long(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(
        "\n".join([*map(str, range(20)), "oneDNN custom operations are on", "", "x" * 9999]), encoding="utf-8"
    )
    assert tail(log).splitlines() == [*map(str, range(13, 20)), "x" * 300]


def test_of_a_crash_the_librarys_own_words_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(_CRASH, encoding="utf-8")
    assert tail(log).splitlines() == [
        *_CRASH.splitlines()[:3],
        "Current thread 0x00007f02 (most recent call first):",
        *_STACK.splitlines()[:4],
    ]


def test_a_thread_of_the_library_that_crashes_has_no_calls(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(_CRASH.replace("Current thread", "Thread"), encoding="utf-8")
    assert tail(log).splitlines() == _CRASH.splitlines()[:3]


def test_what_was_printed_after_a_crash_is_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(f"{_CRASH}The next attempt.\nIt has another reason.\n", encoding="utf-8")
    assert tail(log).splitlines() == [
        _CRASH.splitlines()[2],
        "Current thread 0x00007f02 (most recent call first):",
        *_STACK.splitlines()[:4],
        "The next attempt.",
        "It has another reason.",
    ]
    with log.open("a", encoding="utf-8") as file:
        file.writelines(f"{number}\n" for number in range(20))
    assert tail(log).splitlines() == [str(number) for number in range(12, 20)]


def test_a_log_that_is_not_there_or_no_text_says_what_it_can(tmp_path: Path) -> None:
    assert tail(tmp_path / "none") == ""
    (tmp_path / "log.txt").write_bytes(b"\xff\xfe end")
    assert tail(tmp_path / "log.txt") == "\ufffd\ufffd end"
