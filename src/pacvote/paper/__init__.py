"""The paper's experiments, and its tables and figures with our numbers beside the printed ones."""
