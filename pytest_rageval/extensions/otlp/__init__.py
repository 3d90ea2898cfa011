"""OpenTelemetry: `--rageval-report otlp:URL` sends the results of a run as events."""
