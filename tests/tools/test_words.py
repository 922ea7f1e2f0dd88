"""The check of refused words sees code and not explanations."""

from cleave.tools.words import offences

CODE = '''
"""Explains softmax."""
def scores():
    """A row of attention."""
    # softmax comes later
    return 1
'''


def test_explanations_may_use_the_words() -> None:
    assert list(offences(CODE)) == []


def test_code_may_not() -> None:
    source = 'def flash_loop():\n    kind = "softmax"\n    return RmsNorm(kind, swiglu)\n'
    assert list(offences(source)) == [(1, "flash"), (2, "softmax"), (3, "rmsnorm"), (3, "swiglu")]


def test_words_are_whole() -> None:
    assert list(offences("flashback = softmaxes\n")) == []
