"""What the metadata says of users, their rights and their quotas, in force in this node."""
