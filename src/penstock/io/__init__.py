"""Sources and sinks: one file per kind of data."""
