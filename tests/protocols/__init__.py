"""Requests and answers of each wire format."""
