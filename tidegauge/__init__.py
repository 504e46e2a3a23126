"""Data quality metrics: measure tables incrementally, store metrics, and detect anomalies in them.

>>> import tidegauge as tg
>>> tg.Completeness("email")
Completeness('email')

Public names are listed in ``__init__.pyi``, for type checkers, and imported lazily on first use:
importing the package loads neither Spark nor pandas.
"""

import lazy_loader

from tidegauge.display.hints import with_hints

__version__ = "0.1.0"

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_hints(_attribute, __name__, __all__)
