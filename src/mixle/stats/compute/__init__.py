"""Public home of the base classes that users subclass."""
