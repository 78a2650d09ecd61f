"""The paper's experiments: nine tasks, every table and figure, the published numbers beside ours."""
