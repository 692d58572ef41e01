"""`dataclass`, as the standard library's, made quickly.

The standard library writes and compiles half a dozen functions for each class when it is defined,
which is most of what loading the compiler took. Here equality, hash and text are functions that all
classes share, and `__init__` is written when the first object is made. The classes are dataclasses
to everybody else: `dataclasses.fields`, `replace` and `is_dataclass` know them.

Type checkers are shown the standard library's. What nobody here asks of it is left out: order,
keyword-only fields, variables for `__init__` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    import inspect
    from collections.abc import Callable
    from dataclasses import _FIELD, MISSING, Field, FrozenInstanceError, field, replace
    from operator import attrgetter
    from reprlib import recursive_repr
    from typing import Any

    __all__ = ["dataclass", "field", "replace"]

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True
    ) -> Any:
        """Make a class with annotated fields a dataclass."""
        if cls is None:
            return lambda cls: _build(cls, frozen, slots, eq)
        return _build(cls, frozen, slots, eq)

    def _build(cls: type, frozen: bool, slots: bool, eq: bool) -> type:
        own = _own_fields(cls)
        fields: dict[str, Any] = {}
        for base in cls.__mro__[-1:0:-1]:
            fields.update(base.__dict__.get("__dataclass_fields__", {}))
        fields.update(own)
        names = tuple(fields)
        for name, each in own.items():
            if each.default is MISSING:
                if name in cls.__dict__:
                    delattr(cls, name)  # a call of `field`
            else:
                setattr(cls, name, each.default)
        shown = tuple([name for name, each in fields.items() if each.repr])
        methods = {"__init__": _first_init(), "__repr__": _repr_of(shown)}
        if eq:
            values = _values_of(tuple([name for name, each in fields.items() if each.compare]))
            has_own_hash = cls.__dict__.get("__hash__") is not None
            methods["__eq__"] = _eq_of(values)
            if not has_own_hash:
                cls.__hash__ = _hash_of(values) if frozen else None
        if frozen:
            methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
        for name, method in methods.items():
            if name not in cls.__dict__:
                setattr(cls, name, method)
        cls.__dataclass_fields__ = fields
        if "__match_args__" not in cls.__dict__:
            cls.__match_args__ = names
        return _with_slots(cls, names, frozen) if slots else cls

    def _own_fields(cls: type) -> dict[str, Any]:
        """The fields that the class itself names."""
        own = {}
        for name, annotation in inspect.get_annotations(cls).items():
            if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
                continue
            given = cls.__dict__.get(name, MISSING)
            each = own[name] = given if isinstance(given, Field) else field(default=given)
            each.name, each.type, each._field_type = name, annotation, _FIELD
            if type(each.default) in (list, dict, set):
                raise ValueError(f"{cls.__name__}.{name}: use field(default_factory=...)")
        return own

    def _with_slots(cls: type, names: tuple[str, ...], frozen: bool) -> type:
        """The class again, with a slot for each field."""
        held = {name for base in cls.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
        content = dict(cls.__dict__)
        content["__slots__"] = tuple([name for name in names if name not in held])
        for name in (*names, "__dict__", "__weakref__"):
            content.pop(name, None)
        if frozen and "__getstate__" not in content:
            content |= {"__getstate__": _get_state, "__setstate__": _set_state}
        made = type(cls)(cls.__name__, cls.__bases__, content)
        made.__qualname__ = cls.__qualname__
        return made

    # Methods that all classes share

    def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
        """The function that gives the fields of an object as a tuple."""
        if len(names) > 1:
            return attrgetter(*names)
        return lambda self: tuple([getattr(self, name) for name in names])

    def _eq_of(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], Any]:
        def __eq__(self: Any, other: Any) -> Any:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return values(self) == values(other)

        return __eq__

    def _hash_of(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
        def __hash__(self: Any) -> int:
            return hash(values(self))

        return __hash__

    def _repr_of(names: tuple[str, ...]) -> Callable[[Any], str]:
        @recursive_repr()
        def __repr__(self: Any) -> str:
            shown = [f"{name}={getattr(self, name)!r}" for name in names]
            return f"{type(self).__qualname__}({', '.join(shown)})"

        return __repr__

    def _refuse_set(self: Any, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_delete(self: Any, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _get_state(self: Any) -> list[Any]:
        return [getattr(self, name) for name in type(self).__dataclass_fields__]

    def _set_state(self: Any, state: list[Any]) -> None:
        for name, value in zip(type(self).__dataclass_fields__, state, strict=True):
            object.__setattr__(self, name, value)

    # `__init__`

    def _first_init() -> Callable[..., None]:
        """An `__init__` that writes the real one, and puts it in its own place."""

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            for cls in type(self).__mro__:  # it may have been called for a subclass
                if cls.__dict__.get("__init__") is __init__:
                    cls.__init__ = _write_init(cls)
                    return cls.__init__(self, *args, **kwargs)

        return __init__

    def _write_init(cls: type) -> Callable[..., None]:
        """The `__init__` that sets the fields of a class."""
        scope: dict[str, Any] = {"MISSING": MISSING}
        parameters, lines = ["self"], []
        is_frozen = cls.__setattr__ is not object.__setattr__
        for name, each in cls.__dataclass_fields__.items():
            value = name
            if each.default is not MISSING:
                scope[f"default_{name}"] = each.default
                parameters.append(f"{name}=default_{name}")
            elif each.default_factory is not MISSING:
                scope[f"make_{name}"] = each.default_factory
                parameters.append(f"{name}=MISSING")
                value = f"make_{name}() if {name} is MISSING else {name}"
            elif each.init:
                parameters.append(name)
            else:
                continue  # set later, by whoever makes the object
            if is_frozen:
                lines.append(f"    set_field(self, {name!r}, {value})")
            else:
                lines.append(f"    self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("    self.__post_init__()")
        scope["set_field"] = object.__setattr__
        exec(
            "\n".join([f"def __init__({', '.join(parameters)}):", *(lines or ["    pass"])]), scope
        )
        made = scope["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        made.__module__ = cls.__module__
        return made
