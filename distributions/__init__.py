"""distributions: how what users install is made, where that is not the tree as it stands."""
