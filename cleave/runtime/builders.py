"""
A pool of processes that plan, lower and compile programs.

One server process imports what is needed once, never touches a GPU, and forks a worker for each thread of the pool. A worker
that dies on what it is asked, or takes too long, fails that alone: another is forked. Forking this process instead would copy its
threads' locks and its CUDA context; starting fresh ones would import everything in each. Where someone forks it, the copy begins with a
pool of its own.
"""

from __future__ import annotations

import atexit
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pickle import PicklingError
from typing import Any, TypeVar

from cleave.runtime.build import Built, build
from cleave.runtime.cache import Store
from cleave.runtime.connection import Done, Gone, Peer, started
from cleave.schedule.program import Program

PATIENCE = 60.0
IDLE = 20.0
MOST = 16
Answer = TypeVar("Answer")


class BuildError(RuntimeError):
    """What was asked could not be done: a program could not be lowered or compiled, say."""


@dataclass(frozen=True, slots=True)
class _Job:
    function: Callable[..., Any]
    arguments: tuple[object, ...]
    patience: float
    result: Future[Any]


class Builders:
    """The pool; threads and processes start when they are needed, and stop when idle."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or min(MOST, len(os.sched_getaffinity(0)))
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._waiting = 0
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._peers: set[Peer] = set()

    def warm(self) -> None:
        """Starts the server, whose imports then overlap with other work."""
        with self._lock:
            self._started()

    def submit(
        self,
        program: Program,
        architecture: str,
        wanted: Sequence[int] | None = None,
        store: Store | None = None,
        patience: float = PATIENCE,
    ) -> Future[Built]:
        """The program built as by `cleave.runtime.build.build`; as for `call`."""
        return self.call(build, program, architecture, None if wanted is None else tuple(wanted), store or Store(), patience=patience)

    def call(self, function: Callable[..., Answer], *arguments: object, patience: float = PATIENCE) -> Future[Answer]:
        """
        What a function of a module gives for arguments that can be sent to a process, within so many seconds from when it begins; the
        result may raise BuildError. Jobs start in order.
        """
        result: Future[Answer] = Future()
        job = _Job(function, arguments, patience, result)
        with self._lock:
            if self._waiting <= self._jobs.qsize() and self._threads < self.workers:
                try:
                    threading.Thread(target=self._serve, name="cleave builder", daemon=True).start()
                    self._threads += 1
                except RuntimeError as error:
                    if self._threads == 0:
                        result.set_exception(BuildError(f"no thread could be started: {error}"))
                        return result
            self._jobs.put(job)
        return result

    def close(self) -> None:
        """Ends the server; workers end with their work."""
        with self._lock:
            if self._control is not None:
                self._control.close()
                self._control = None
            if self._server is not None:
                try:
                    self._server.wait(5)
                except subprocess.TimeoutExpired:
                    self._server.kill()
                    self._server.wait()
                self._server = None

    def forget(self) -> None:
        """Begins anew: after a fork the threads, what they wait for and the processes are the other process'."""
        self._jobs, self._lock = queue.SimpleQueue(), threading.Lock()
        self._threads = self._waiting = 0
        # A process ends when the last copy of our end does.
        for peer in self._peers:
            peer.close()
        self._peers.clear()
        if self._control is not None:
            self._control.close()
        self._server = self._control = None

    def _serve(self) -> None:
        peer: Peer | None = None
        while True:
            with self._lock:
                self._waiting += 1
            try:
                job = self._jobs.get(timeout=IDLE)
            except queue.Empty:
                with self._lock:
                    self._waiting -= 1
                    if not self._jobs.empty():
                        continue
                    self._threads -= 1
                break
            with self._lock:
                self._waiting -= 1
            if job.result.set_running_or_notify_cancel():
                peer = self._built(job, peer)
        if peer is not None:
            self._ended(peer)

    def _built(self, job: _Job, peer: Peer | None) -> Peer | None:
        """Does a job with a worker, a new one where there is none; gives back the worker, if it is still of use."""
        try:
            peer = peer or self._forked()
            reply = peer.ask((job.function, job.arguments), job.patience)
        except Gone as error:
            if peer is not None:
                self._ended(peer)
            job.result.set_exception(BuildError(f"the process that was asked: {error}"))
            return None
        except OSError as error:
            job.result.set_exception(BuildError(f"no process could be started: {error}"))
            return None
        except (PicklingError, AttributeError, RecursionError, TypeError) as error:
            job.result.set_exception(BuildError(f"what is asked, or the answer, cannot be sent: {error}"))
            return peer
        except Exception as error:
            # Whatever it is, somebody waits for the answer.
            if peer is not None:
                self._ended(peer)
            job.result.set_exception(BuildError(f"the process that was asked: {type(error).__name__}: {error}"))
            return None
        if isinstance(reply, Done):
            job.result.set_result(reply.result)
        else:
            job.result.set_exception(BuildError(str(reply)))
        return peer

    def _forked(self) -> Peer:
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            socket.send_fds(self._started(), [b"w"], [theirs.fileno()])
        connection: Connection[Any, Any] = Connection(ours.detach())
        if not connection.poll(PATIENCE):
            connection.close()
            raise Gone("it did not start")
        try:
            peer = Peer(connection, int(connection.recv()))
        except (EOFError, OSError) as error:
            connection.close()
            raise Gone("it did not start") from error
        with self._lock:
            self._peers.add(peer)
        return peer

    def _ended(self, peer: Peer) -> None:
        """Lets a worker go that is of no more use."""
        with self._lock:
            self._peers.discard(peer)
        peer.close()

    def _started(self) -> socket.socket:
        if self._control is None or self._server is None or self._server.poll() is not None:
            # A worker must not see the GPU, nor run numpy's threads, which do not survive the fork.
            alone = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
            # Triton prints code that the assembler refuses; why it did is in the answer.
            self._server, self._control = started("cleave.runtime.builder", alone, without=("TRITON_INTERPRET",), silent=True)
        return self._control


BUILDERS = Builders()
"""The pool that all callers share."""

atexit.register(BUILDERS.close)
os.register_at_fork(after_in_child=BUILDERS.forget)
