"""What must hold in every history: invariants in rooms of their own, none of which shares code with the engine."""
