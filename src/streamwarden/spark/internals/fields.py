"""Private fields of objects of the JVM, which no public method returns."""

from typing import Any


def field_of(jvm_object: Any, name: str) -> Any:
    """The value of a field."""
    return declared(jvm_object, name).get(jvm_object)


def declared(jvm_object: Any, name: str) -> Any:
    """A field of the object's class or of one that it extends."""
    kind = jvm_object.getClass()
    while not any(field.getName() == name for field in kind.getDeclaredFields()):
        kind = kind.getSuperclass()
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    return field
