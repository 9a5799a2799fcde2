"""Networks: `small` ones for one CPU, and the paper's own at full size. All need torch."""
