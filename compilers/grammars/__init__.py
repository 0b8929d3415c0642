"""Offline side of grammars: source text -> grammar -> automata, parse tables, subterminal trees."""
