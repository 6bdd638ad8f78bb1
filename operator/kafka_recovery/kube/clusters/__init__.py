"""WatchedClusters: opening, watching and closing each one, its status, and what it needs beside that."""
