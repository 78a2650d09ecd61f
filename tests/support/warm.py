"""Commands that need not start anew: one process imports everything and loads the loops, and forks a child for each.

`warm.py serve PATH` is that process; it listens at a socket. `warm.py run ...` stands for `python -m hedgerow ...` or
`python FILE ...`: it hands its arguments, folder, environment and standard files to a child of the first, passes
signals on, and ends as the child ends; if it is killed, so is the child. That takes milliseconds instead of seconds.
Not for tests of imports, of process groups or of resource limits, which are those of the process that forks.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback

SOCKET = "HEDGEROW_TESTS_WARM"  # where the first process listens
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


# -- the process that a test starts ----------------------------------------------------------------------------------


def run(arguments: list[str]) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(os.environ[SOCKET])
        asked = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
        socket.send_fds(line, [len(asked).to_bytes(8, "big")], [0, 1, 2])
        line.sendall(asked)
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: line.sendall(bytes([number])))
        if not (ended := line.recv(8)):
            sys.exit("the process that forks commands is gone")
    code = os.waitstatus_to_exitcode(int(ended))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


# -- the process that forks ------------------------------------------------------------------------------------------


def serve(path: str) -> None:
    """Until standard input ends, which is when the tests end."""
    prepare()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listener, 0], [], [])
            if 0 in ready:
                break
            line, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                attend(line)
            line.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def prepare() -> None:
    """Import what commands import, and load the compiled loops."""
    import gc

    import numpy as np
    import pandas  # noqa: F401
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.json
    import pyarrow.parquet  # noqa: F401
    import uvicorn  # noqa: F401

    import hedgerow.cli.app
    import hedgerow.cli.fit_files
    import hedgerow.cli.terminal
    import hedgerow.run.loop
    import hedgerow.service.app  # noqa: F401
    from hedgerow import OnlineTransferClassifier

    X = np.random.default_rng(0).normal(size=(30, 3))
    y = np.arange(30) % 3
    for method in ("hedgerow", "oddm", "homotl-1", "pa"):
        clf = OnlineTransferClassifier(method).fit(X, y, sample_domain=np.arange(30) % 3 - 1)
        clf.predict_one(X[0])
        clf.learn_one(X[0], y[0])
        clf.predict_then_learn(X, y)
    gc.freeze()


def attend(line: socket.socket) -> None:
    """Fork the command, pass signals on to it, tell how it ended; whoever asked for it may be killed."""
    size, files, _, _ = socket.recv_fds(line, 8, 3)
    asked = b""
    while len(asked) < int.from_bytes(size, "big"):
        asked += line.recv(1 << 20)
    tests = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1):
        os.dup2(
            nothing, number
        )  # those of the process that forks would stay open as long as the command runs
    pid = os.fork()
    if pid == 0:
        line.close()
        os.close(tests)
        os.close(nothing)
        child(*json.loads(asked), files)
    for file in files:
        os.close(file)
    ended = os.pidfd_open(pid)
    watched = [line, ended, tests]
    while ended not in (ready := select.select(watched, [], [])[0]):
        numbers = line.recv(16) if line in ready else b""
        if (
            not numbers
        ):  # whoever asked was killed, or the tests have ended and left a service behind
            watched = [ended]
        for number in numbers or [signal.SIGKILL]:
            signal.pidfd_send_signal(ended, number)

    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        line.sendall(str(status).encode())
    os._exit(0)


def child(arguments: list[str], folder: str, environment: dict[str, str], files: list[int]) -> None:
    """What `python` would do with these arguments; ends as the interpreter would."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.setsid()  # signals to a group do not reach other commands
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number in PASSED_ON[1:]:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(
        1, "w", encoding="utf-8", buffering=1 if os.isatty(1) else -1, closefd=False
    )
    sys.stderr = os.fdopen(
        2, "w", encoding="utf-8", buffering=1, errors="backslashreplace", closefd=False
    )
    code = 0
    try:
        if arguments[:2] == ["-m", "hedgerow"]:
            from hedgerow.__main__ import main

            sys.argv = arguments[1:]
            sys.path.insert(0, folder)
            main()
        else:
            sys.argv = arguments
            sys.path.insert(0, os.path.dirname(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if code == 1 and end.code != 1:
            print(end.code, file=sys.stderr)
    except BaseException as error:
        traceback.print_exc()
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    run(sys.argv[2:]) if sys.argv[1] == "run" else serve(sys.argv[2])
