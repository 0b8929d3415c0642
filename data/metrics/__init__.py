"""Metrics of samples against references, with bootstrap intervals and paired tests.

Read ``records`` (what is read, a record at a time), ``metric`` (what a metric is: sums over
records, and a value of sums), then the metrics themselves: ``answers`` (right texts, rankings,
JSON values), ``laws`` (distance from a target, weights, perplexity), ``calibration``, ``costs``;
``resampling`` has the intervals and tests, ``evaluation`` puts it all together and is what others
import; ``choice`` takes the best of the cheapest settings. No metric knows how a sample was drawn:
nothing of ``cdec.samplers`` is imported.
"""
