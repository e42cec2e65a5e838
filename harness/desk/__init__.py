"""The commands of a person at a desk: run and plan, report, archive and export, status, doctor, claims, help."""
