"""The paper's evaluation, rerun: six tasks, its tables and figures. `opcal paper` runs it; nothing imports it."""
