"""What the stored runs say: tables, figures, one page."""
