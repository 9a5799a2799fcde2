"""scikit-learn's parameter convention without importing scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, Self

from opcal.errors import UnknownOption


class Params:
    """Settings are the arguments of `__init__`, stored under their own names; results end in an underscore."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        for name in params:
            if name not in self._names():
                raise UnknownOption(
                    f"{type(self).__name__} has no setting {name!r}: known are {', '.join(self._names())}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {n: p.default for n, p in inspect.signature(type(self).__init__).parameters.items()}
        shown = [f"{n}={v!r}" for n, v in self.get_params().items() if v is not defaults[n] and v != defaults[n]]
        return f"{type(self).__name__}({', '.join(shown)})"
