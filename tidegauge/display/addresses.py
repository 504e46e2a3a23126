"""Addresses of pages of the served dashboard; the script reads and writes the part after #."""

from __future__ import annotations

from urllib.parse import quote


def incident_address(url: str, incident: int) -> str:
    """Return the address of an incident's page.

    Parameters
    ----------
    url : str
        The dashboard's own address.
    incident : int

    Examples
    --------
    >>> incident_address("https://quality.example/", 337)
    'https://quality.example/#/incidents/337'
    """
    return f"{url}#/incidents/{incident}"


def dataset_address(url: str, dataset: str) -> str:
    """Return the address of the heat map of one table.

    Examples
    --------
    >>> dataset_address("https://quality.example/", "sales & co")
    'https://quality.example/#/overview?table=sales%20%26%20co'
    """
    return f"{url}#/overview?table={quote(dataset, safe='')}"
