"""The paper's learner: frozen and online heads in aligned spaces, weighed by a mixer, with a refresh of the spaces."""
