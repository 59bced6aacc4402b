"""Errors that answer names of other libraries with the right name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from lbhash.utils.validation import did_you_mean

Method = TypeVar("Method", bound=Callable[..., Any])


def unknown_name(name: str, what: str, known: Collection[str], words: Mapping[str, str]) -> str:
    """Return a message about an unknown name, with the right one if it can be guessed.

    ``words`` maps names from other libraries to ours.

    >>> unknown_name("random_state", "no setting of Hasher", ["seed"], {"random_state": "seed"})
    "'random_state' is no setting of Hasher; did you mean seed?"
    """
    return f"{name!r} is {what}{f'; did you mean {words[name]}?' if name in words else did_you_mean(name, known)}"


def refusing_others(init: Callable[..., None], owner: str, words: Mapping[str, str]) -> Callable[..., None]:
    """Return an ``__init__`` whose error about an unknown argument suggests the right one.

    ``words`` maps names that a user may try to ours.
    """
    parameters = list(inspect.signature(init).parameters.values())[1:]
    names = [one.name for one in parameters]
    named = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]

    @wraps(init)
    def checked(self: Any, *args: Any, **settings: Any) -> None:
        if unknown := sorted(settings.keys() - set(names)):
            raise TypeError(unknown_name(unknown[0], f"no setting of {owner}", names, words))
        if len(args) > len(named):
            said = f"{owner} has {len(args)} settings without a name; it must be at most {len(named)}"
            raise TypeError(f"{said} ({', '.join(named)}), name the others")
        init(self, *args, **settings)

    return checked


def telling(words: Mapping[str, str]) -> Callable[[Method], Method]:
    """Return a decorator of a method; its error about an unknown argument suggests the right one."""

    def decorated(method: Method) -> Method:
        names = list(inspect.signature(method).parameters)

        @wraps(method)
        def told(*args: Any, **named: Any) -> Any:
            if unknown := sorted(named.keys() - set(names)):
                raise TypeError(unknown_name(unknown[0], f"no argument of {method.__name__}", names, words))
            return method(*args, **named)

        return cast(Method, told)

    return decorated


class Guessed(type):
    """A metaclass whose error about an unknown attribute (``Hasher.load``) suggests the right one."""

    _words: ClassVar[Mapping[str, str]]

    if not TYPE_CHECKING:  # else any name would pass a type checker

        def __getattr__(cls, name: str) -> Any:
            raise AttributeError(cls.no_attribute(name))

    def no_attribute(cls, name: str) -> str:
        """Return the message about an attribute that neither the class nor its objects have."""
        return unknown_name(name, f"no attribute of {cls.__name__}", (), cls._words)
