"""Writes results of the task hash in the form of sha512sum -z.

The names of the files come on standard input, ended by NUL; the argument is the
folder of their results.
"""

import base64
import os
import sys

folder = os.fsencode(sys.argv[1])
for name in sys.stdin.buffer.read().split(b"\0")[:-1]:
    # A result stands where its file does; a percent sign is written as %25.
    with open(os.path.join(folder, name.replace(b"%", b"%25")), "rb") as result:
        digest = base64.b64decode(result.read(), validate=True)
    sys.stdout.buffer.write(digest.hex().encode() + b"  " + name + b"\0")
