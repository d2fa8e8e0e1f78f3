"""What everything stands on: errors, quantities with units, documents, version."""
