"""For all tests: how Hypothesis runs."""

from hypothesis import settings

# A machine that is busy makes an example slow, not wrong; what takes too long altogether is
# pytest-timeout's to say.
settings.register_profile("kohort", deadline=None)
settings.load_profile("kohort")
