"""The words of the package: what all other parts are written in.

- `data`: documents, gold passages, examples, rankings. `conversation`: the messages of a conversation.
- `spec`: names of scores. `outcome`: `Outcome` (one example) and `Score` (their mean).
- `extensions`: the extensions that are installed, and all options.
- `document`: the types of the entries of a report.
- `options`: the declarations of the options. `parsers`: parse the text of each. `command_line`: `--rageval NAME=VALUE`.
  `settings`: `Settings`, their values in a run. `resolution`: finds the values in command line, ini file,
  `pyproject.toml` and environment. `model_settings`: settings of generator and judge, also from `pyproject.toml`.
  `request_parameters`: those that a user may set. `presets`: the settings of published papers, by name.
- `errors`: the errors, and messages that name a remedy.
- `shape`: reads JSON files, and checks their content against types.
- `user_code`: calls of the user's functions, with checks of what they return.
- `concurrency`: runs coroutines.
- `extensions`: finds the extensions, and the plugins of others. `command`: what they declare for the command `rageval`.
"""
