"""What measured traces say of the profiles they were predicted by."""
