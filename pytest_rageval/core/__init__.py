"""The words of the package: what all other parts are written in.

- `ranking`: documents and rankings. `evalset`: examples, their gold passages and conversations.
- `spec`: names of scores. `outcome`: `Outcome` (one example) and `Score` (their mean).
- `extensions`: finds the extensions, and the plugins of others.
- `policy`: `Policy`, how the bounds of a threshold are decided.
- `errors`: the errors, and messages that name a remedy.
"""
