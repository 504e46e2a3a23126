"""The dashboard: an anywidget whose script requests data from the kernel on demand."""
