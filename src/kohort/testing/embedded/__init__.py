"""A server in a thread of the test process, with time and faults under the control of the test."""
