"""The dashboard: an anywidget whose script fetches what it shows from the kernel on demand."""
