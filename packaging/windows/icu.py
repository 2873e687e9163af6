"""Prints the C text of an ``icuuc.dll`` that knows no text codec."""

from __future__ import annotations

_FUNCTIONS = (
    "open close reset getName getToUCallBack getFromUCallBack setToUCallBack setFromUCallBack cbToUWriteUChars "
    "cbFromUWriteUChars toUCountPending fromUCountPending getStandardName getAvailableName countAvailable toUnicode "
    "fromUnicode getMaxCharSize"
)

for name in _FUNCTIONS.split():
    print(f"__declspec(dllexport) void *ucnv_{name}(void) {{ return 0; }}")
for way in ("FROM", "TO"):
    print(f"__declspec(dllexport) void UCNV_{way}_U_CALLBACK_SUBSTITUTE(void) {{}}")
print("int __stdcall DllMainCRTStartup(void *a, unsigned b, void *c) { return 1; }")
