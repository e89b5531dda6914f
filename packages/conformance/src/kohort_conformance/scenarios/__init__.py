"""The scenarios, a module or package for each subject; importing one registers its scenarios."""
