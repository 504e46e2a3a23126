"""YAML files: suites, rules, consistency configurations."""
