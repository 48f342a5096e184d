"""The errors that callers can expect: one base, exit codes by kind."""

import pickle

import pytest

from nextquery import errors

KINDS = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.NextqueryError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_the_common_base_and_survives_a_pipe(
    kind: type[errors.NextqueryError],
) -> None:
    again = pickle.loads(pickle.dumps(kind("what, where, how to fix")))
    assert type(again) is kind
    assert str(again) == "what, where, how to fix"
    assert kind.__doc__


def test_bad_input_is_told_apart_from_bad_files() -> None:
    assert issubclass(errors.LogError, errors.InputError)
    assert issubclass(errors.ConfigError, errors.InputError)
    assert issubclass(errors.BlocklistError, errors.InputError)
    assert issubclass(errors.ChecksumError, errors.ArtifactError)
    assert not issubclass(errors.ArtifactError, errors.InputError)
