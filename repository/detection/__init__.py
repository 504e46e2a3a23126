"""Detection: score stored metrics, decide, write anomalies; backtests and replays."""
