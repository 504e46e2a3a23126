"""Data quality metrics: measure tables incrementally, store metrics, and detect anomalies in them.

>>> import tidegauge as tg
>>> tg.Completeness("email")
Completeness('email')

Public names are listed in ``__init__.pyi``, for type checkers, and imported lazily on first use:
importing the package loads neither Spark nor pandas.
"""

import lazy_loader

from tidegauge.display.signatures import readable

__version__ = "0.1.0"

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_find = readable(_attribute)


def __getattr__(name: str) -> object:
    try:
        return _find(name)
    except AttributeError as error:
        from tidegauge.spellings import hint

        told = "" if name.startswith("_") else hint(name, __all__)
        if not told:
            raise
        msg = f"tidegauge has no {name!r}; {told}"
        raise AttributeError(msg, name=name) from error
