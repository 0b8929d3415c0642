"""Builds the embedded models: tables of facts, corpora, tokenizer, training and evaluation.

Reading order: fact_tables, relations, facts, arithmetic, corpora, mixture, tokenizer, model,
training, evaluation, entities, outputs, __main__.
"""
