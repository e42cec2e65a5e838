import afdep
from afdep import device_errors, errors


def test_every_public_name_exists_once() -> None:
    assert len(set(afdep.__all__)) == len(afdep.__all__)
    assert all(hasattr(afdep, name) for name in afdep.__all__)


def test_every_error_class_is_public() -> None:
    classes = {
        name
        for name, value in (vars(errors) | vars(device_errors)).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert classes <= set(afdep.__all__)


def test_every_class_at_the_top_is_listed() -> None:
    classes = {name for name, value in vars(afdep).items() if isinstance(value, type)}
    assert classes <= set(afdep.__all__)
