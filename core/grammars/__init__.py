"""Online side of grammars: the compiled arrays, the engine that walks them, session, constraint."""
