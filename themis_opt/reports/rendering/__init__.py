"""How reports are drawn: charts, tables and pages."""
