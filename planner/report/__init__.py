"""What people see: tables in the terminal and pictures on disk."""
