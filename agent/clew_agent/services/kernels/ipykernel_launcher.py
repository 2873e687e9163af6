"""``python -m ipykernel_launcher`` of the kernels that Clew's Jupyter starts: as ipykernel's own, but on no port.

This folder comes first in the ``PYTHONPATH`` of Jupyter, so Python kernels of any environment find this file before
ipykernel's. It imports nothing of Clew's and runs on each Python that ipykernel has. With every transport, ipykernel
listens on a port of the loopback for what child processes of a kernel print, and on another one while someone debugs;
any user of the node could connect to both.
"""

from __future__ import annotations

import os
import sys
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # compared with the entries of sys.path


def main() -> None:
    """Start the kernel. Ends with a sentence in Jupyter's log where it would listen on a port."""
    from ipykernel.iostream import IOPubThread
    from ipykernel.ipkernel import IPythonKernel
    from ipykernel.kernelapp import IPKernelApp

    class App(IPKernelApp):
        def init_sockets(self) -> None:
            if self.transport != "ipc":
                sys.exit("Clew allows kernels on sockets only. Remove `transport` from the settings of your Jupyter.")
            super().init_sockets()  # type: ignore[no-untyped-call]

    thread: Any = IOPubThread
    if not (hasattr(thread, "_setup_pipe_in") and hasattr(thread, "_setup_pipe_out")):
        sys.exit("Clew cannot keep this version of ipykernel from listening on a port. Install ipykernel 7.4.")
    thread._setup_pipe_in, thread._setup_pipe_out = setup_pipe_in, setup_pipe_out
    kernel: Any = IPythonKernel
    if hasattr(kernel, "do_debug_request"):  # from 6.0
        kernel.do_debug_request = without_debugger(kernel.do_debug_request)
    App.launch_instance()


def setup_pipe_in(thread: Any) -> None:
    """Takes what child processes print on a socket beside the kernel's others, where ipykernel takes a port."""
    import zmq
    from zmq.eventloop.zmqstream import ZMQStream

    published = thread.socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
    thread._pipe_uuid = os.urandom(16)
    thread._pipe_port = published.rpartition("-")[0] + "-c"
    pipe = thread.socket.context.socket(zmq.PULL)
    pipe.linger = 0
    pipe.bind(thread._pipe_port)
    thread._pipe_in = ZMQStream(pipe, thread.io_loop)
    thread._pipe_in.on_recv(thread._handle_pipe_msg)


def setup_pipe_out(thread: Any) -> tuple[Any, Any]:
    """The other end, in a child process, which needs a ZeroMQ context of its own."""
    import zmq

    context = zmq.Context()
    pipe = context.socket(zmq.PUSH)
    pipe.linger = 3000  # as ipykernel's
    pipe.connect(thread._pipe_port)
    return context, pipe


def without_debugger(answer: Any) -> Any:
    """Returns a replacement for ``answer``, which answers requests to the debugger: it may be asked about, but not
    started. Its port would run code for every user who connects."""

    async def do_debug_request(kernel: Any, message: Any) -> Any:
        if message["command"] == "debugInfo":  # JupyterLab asks this of each kernel
            return await answer(kernel, message)
        refusal = {"type": "response", "request_seq": message["seq"], "command": message["command"]}
        return {**refusal, "success": False, "message": "Clew turns the debugger off: it would listen on a port."}

    return do_debug_request


def _forget_folder() -> None:
    """Takes this module's folder off the search paths: programs that the kernel starts do not need it. The working
    folder leaves too, until IPython adds it again."""
    if sys.path[0] in ("", os.getcwd()):  # noqa: PTH109  # compared as above
        del sys.path[0]
    sys.path[:] = [path for path in sys.path if path != FOLDER]
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", FOLDER)]
    os.environ.pop("PYTHONPATH", None)
    if others:
        os.environ["PYTHONPATH"] = os.pathsep.join(others)


if __name__ == "__main__":
    _forget_folder()
    main()
