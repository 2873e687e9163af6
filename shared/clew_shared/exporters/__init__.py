"""Journal in, files out: CSV, JSONL, TensorBoard, MLflow, Parquet, the CSV of Weights & Biases, and Chrome's traces.
Heavy imports are inside the functions.

Every exporter takes a ``History`` or a run folder and a folder to write into (made when absent), writes all points of
the clean curves in long form, and returns the path of the file. What was measured is no curve over steps: the
``export_series_…`` write it to a file of its own, the ``export_pulse_…`` what the machines did, and return None where
there is nothing. A file of the same name is replaced only when it is an export of the same run; anything else raises
``ProblemError``, as does a folder that cannot be written.
"""
