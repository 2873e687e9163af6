"""Sites in the window: dialogs of logins, the list of sites, the doctor, held nodes."""

from __future__ import annotations
