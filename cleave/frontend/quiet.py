"""Silence of torch about errors of tracing: it logs them before it raises them, and they are reported in one line anyway."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager

_LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch.export", "torch._dynamo")


@contextmanager
def quiet() -> Generator[None]:
    """Keeps what torch logs in this thread, from the handlers of its loggers."""
    unheard = _Unheard()
    handlers = _handlers()
    for handler in handlers:
        handler.addFilter(unheard)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(unheard)


class _Unheard(logging.Filter):
    """Drops what torch's loggers say in the thread that made it, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is heard."""
        return record.thread != self.thread or not record.name.startswith(_LOGGERS)


def _handlers() -> list[logging.Handler]:
    """All handlers that get what torch's loggers say."""
    out: dict[logging.Handler, None] = {} if logging.lastResort is None else {logging.lastResort: None}
    for name in _LOGGERS:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            out.update(dict.fromkeys(logger.handlers))
            logger = logger.parent if logger.propagate else None
    return list(out)
