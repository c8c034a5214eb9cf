"""The device's queues, which nothing leaves before somebody on the host has to know.

Work that is given to a stream lies there until the host waits for it, or asks after it. Then what was waited
for runs, with all that it was ordered behind, and of everything else as much as a die says, so that work
which should have been ordered, and was not, comes out in the wrong order sooner or later. A task may also say
that it cannot go on yet (a collective whose other ranks have not come); its stream then stands, and all
others go on.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable

__all__ = ["ENGINE", "Engine", "Fault", "Queue", "Task"]


class Fault(AssertionError):
    """Something that a device would answer with a crash, a hang, or wrong numbers."""


class Task:
    """One thing that a stream has to do, behind all that was given to it before.

    Parameters
    ----------
    queue : Queue
    run : callable
        Does it; False if it cannot be done yet.
    after : tuple of Task
        In other streams, which have to be done first.
    """

    __slots__ = ("after", "done", "queue", "run")

    def __init__(self, queue: Queue, run: Callable[[], bool], after: tuple[Task, ...]) -> None:
        self.queue = queue
        self.run = run
        self.after = after
        self.done = False


class Queue:
    """What one stream has still to do.

    Parameters
    ----------
    device : int
    blocking : bool
        Whether it is in step with the null stream of its device.
    """

    def __init__(self, device: int, blocking: bool, null: Queue | None = None) -> None:
        self.device = device
        self.blocking = blocking
        self.null = null
        self.tasks: deque[Task] = deque()
        self.last: Task | None = None


class Engine:
    """All streams of this process.

    Parameters
    ----------
    seed : int
        Of the die.
    """

    def __init__(self, seed: int) -> None:
        self._die = random.Random(seed)
        self._lock = threading.RLock()
        self.queues: list[Queue] = []
        self.fault: BaseException | None = None
        self.before_waiting: list[Callable[[], None]] = []
        self.patience = float(os.environ.get("SHARDWISE_DOUBLE_PATIENCE", "60"))

    def reset(self, seed: int) -> None:
        """Forget a fault, and all work that was left; begin anew with this seed."""
        with self._lock:
            for queue in self.queues:
                queue.tasks.clear()
                queue.last = None
            self.fault = None
            self._die = random.Random(seed)

    def queue(self, device: int, blocking: bool, null: Queue | None = None) -> Queue:
        """Make a stream's queue."""
        queue = Queue(device, blocking, null)
        self.queues.append(queue)
        return queue

    def drop(self, queue: Queue) -> None:
        """Forget the queue of a stream that nobody has any more, once it is empty."""
        if not queue.tasks and queue in self.queues:
            self.queues.remove(queue)

    def submit(self, queue: Queue, run: Callable[[], bool], after: tuple[Task, ...] = ()) -> Task:
        """Give a task to a stream. Nothing runs."""
        if queue.blocking:  # the null stream waits for those in step with it, and they for it
            others = (
                [queue.null]
                if queue.null is not None
                else [each for each in self.queues if each.null is queue and each.blocking]
            )
            after += tuple(each.last for each in others if each.last is not None and not each.last.done)
        task = Task(queue, run, tuple(each for each in after if not each.done))
        queue.tasks.append(task)
        queue.last = task
        return task

    def finish(self, task: Task | None) -> None:
        """Wait until a task is done, as a host does."""
        for check in self.before_waiting:
            check()
        if task is None:
            self._complain()
            return
        began = time.monotonic()
        while True:
            with self._lock:
                self._complain()
                self._disturb()
                if self._advance(task, 1 << 30):
                    self._complain()
                    return
                for queue in list(self.queues):  # what others wait for must go on meanwhile
                    self._step(queue)
            if time.monotonic() - began > self.patience:
                raise Fault(
                    f"the host has waited {self.patience:g} s for work that does not end:\n{self.sketch()}"
                )
            time.sleep(2e-4)

    def ask(self, task: Task | None) -> bool:
        """Whether a task is done; each time somebody asks, a little more of what is before it is."""
        if task is None:
            return True
        if not self._lock.acquire(timeout=0.05):
            return task.done
        try:
            self._complain()
            self._disturb()
            self._advance(task, self._die.randint(1, 4))
            self._complain()
        finally:
            self._lock.release()
        return task.done

    def drain(self, device: int) -> None:
        """Wait until all streams of a device are empty."""
        for queue in list(self.queues):
            if queue.device == device:
                self.finish(queue.last)

    def sketch(self) -> str:
        """Describe what is first in every stream."""
        lines = []
        for number, queue in enumerate(self.queues):
            if queue.tasks:
                head = queue.tasks[0]
                what = getattr(head.run, "what", head.run.__qualname__)
                behind = [self.queues.index(each.queue) for each in head.after if not each.done]
                lines.append(
                    f"stream {number} of device {queue.device}: {len(queue.tasks)} tasks, first {what}, "
                    f"behind streams {behind}"
                )
        return "\n".join(lines)

    def _complain(self) -> None:
        if self.fault is not None:
            raise self.fault

    def _disturb(self) -> None:
        """Let a few streams run ahead, those that were made last before the others; or none."""
        if self._die.random() < 0.5:
            return
        for queue in reversed(list(self.queues)):
            for _ in range(self._die.choice((0, 1, 2, 1000))):
                if not self._step(queue):
                    break

    def _advance(self, task: Task, steps: int) -> bool:
        """Run what a task needs, at most so many steps; True once it is done."""
        stack = [task]
        while stack and steps:
            top = stack[-1]
            if top.done:
                stack.pop()
                continue
            head = top.queue.tasks[0]
            before = next((each for each in head.after if not each.done), None)
            if before is not None:
                stack.append(before)
                continue
            if not self._step(top.queue):
                return False
            steps -= 1
        return task.done

    def _step(self, queue: Queue) -> bool:
        """Run the first task of a stream, if it can run."""
        if self.fault is not None or not queue.tasks:
            return False
        head = queue.tasks[0]
        if any(not each.done for each in head.after):
            return False
        try:
            if not head.run():
                return False
        except BaseException as error:
            self.fault = error
            return False
        queue.tasks.popleft()
        head.done = True
        head.after = ()
        return True


ENGINE = Engine(int(os.environ.get("SHARDWISE_DOUBLE_SEED", "0")))
