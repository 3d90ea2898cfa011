"""The words of the package: what all other parts are written in.

- `ranking`: documents and rankings. `evalset`: examples, their gold passages and conversations.
- `spec`: names of scores. `outcome`: `Outcome` (one example) and `Score` (their mean).
- `document`: the types of the entries of a report, and the limits of their values.
- `options`: the declarations of the options. `parsers`: parse the text of each. `settings`: `Settings`, their values in
  a run, with the settings of its models. `resolution`: finds the values in command line, ini file, `pyproject.toml`,
  environment and `presets`, settings by name.
- `extensions`: finds the extensions, the plugins of others, and all options. `command`: what an extension declares for
  the command `rageval`.
- `policy`: `Policy`, how the bounds of a threshold are decided.
- `errors`: the errors, and messages that name a remedy.
"""
