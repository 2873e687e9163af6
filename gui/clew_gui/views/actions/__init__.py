"""The menus and dialogs, and the objects that join them to the session."""

from __future__ import annotations
