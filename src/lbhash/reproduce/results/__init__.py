"""What is shown: tables, figures, intervals and regressions, and how they are written."""
