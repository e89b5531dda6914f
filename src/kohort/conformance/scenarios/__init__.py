"""The scenarios, a module for each subject; importing a module registers its scenarios."""
