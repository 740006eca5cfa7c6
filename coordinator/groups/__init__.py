"""groups: the group coordinator and its offsets."""
