"""What a click does: menus, dialogs, and the objects that join them to the session."""

from __future__ import annotations
