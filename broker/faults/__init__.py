"""Fault points: named places where a broker can be made to fail on purpose.

points (the list of names), control (arming and counting), partitions, disk and answers (where the points are).
"""
