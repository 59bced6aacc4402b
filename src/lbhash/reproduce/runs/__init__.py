"""What is trained: settings, data, cells, their execution, and the store of finished runs."""
