"""Griffin's data quality rules and jobs: ``tg.griffin.parse``, ``tg.griffin.run``, ``%%griffin``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
