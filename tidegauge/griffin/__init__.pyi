# Public names; `__init__.py` imports each from here when it is first used.

from .dsl.errors import DslError as DslError
from .dsl.grammar import write as write
from .dsl.parser import parse as parse
from .dsl.parser import parse_expression as parse_expression
from .execution.loader import frame_operation as frame_operation
from .magic import load_ipython_extension as load_ipython_extension
from .reading import read_env as read_env
from .reading import read_job as read_job
from .results import GriffinResult as GriffinResult
from .results import RuleResult as RuleResult
from .running import check as check
from .running import run as run
