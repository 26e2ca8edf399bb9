"""The brief: the facts of one printable page, and its forms (HTML, PDF, XLSX, CSV, JSON)."""

from planner.brief.build import brief, completed
from planner.brief.command import reproduce
from planner.brief.export import FORMATS, export
from planner.brief.records import Brief

__all__ = ["FORMATS", "Brief", "brief", "completed", "export", "reproduce"]
