"""Parse analyzers from YAML files."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from tidegauge.analyzers.core.analyzer import ANALYZERS, AnyAnalyzer
from tidegauge.analyzers.core.errors import PreconditionError, SuiteError
from tidegauge.files.yaml_file import YamlFile


def read_analyzer(file: YamlFile, item: yaml.Node) -> AnyAnalyzer:
    """Parse an analyzer: its name, or its name with a column or a mapping of options.

    Raises
    ------
    SuiteError
        With the line, the problem, and the nearest valid name.
    """
    plain = file.plain(item)
    try:
        if isinstance(plain, str):
            return ANALYZERS.parse(plain)
        if not isinstance(plain, Mapping) or len(plain) != 1:
            msg = "an analyzer is a name, or a name with its column or options"
            raise SuiteError(msg)  # noqa: TRY301 - located below like the others
        ((name, given),) = plain.items()
        if isinstance(given, Mapping):
            return ANALYZERS.build(name, given)
        return ANALYZERS.build(name, {}, [] if given in ("", None) else [given])
    except (SuiteError, PreconditionError) as error:
        raise file.error(item, error) from error
