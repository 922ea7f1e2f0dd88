"""What tests of running share."""

from __future__ import annotations

import pytest

from tests.runtime.made_up_machine import Machine, made_machine


@pytest.fixture(params=["static", "ctypes"])
def machine(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Machine:
    """With torch's launcher and without."""
    return made_machine(monkeypatch, request.param == "static")
