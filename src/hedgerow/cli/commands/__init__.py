"""The commands: options and what is printed. What a command does is in the module it imports when it is called."""
