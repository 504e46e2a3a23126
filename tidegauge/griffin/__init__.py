"""Griffin's data quality rules and jobs: ``tg.griffin.parse``, ``tg.griffin.run``, ``%%griffin``."""

import lazy_loader

from tidegauge.display.hints import with_hints

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = with_hints(_attribute, __name__, __all__)
