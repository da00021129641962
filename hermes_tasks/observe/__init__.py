"""What one process shows of itself, and how it minds its parent. Light: importing it starts nothing."""
