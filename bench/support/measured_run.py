# SPDX-License-Identifier: Apache-2.0
"""A program, and what it took."""

import os
import subprocess
import tempfile


def measured_run(command, **more):
    """(exit status, output, most memory in bytes, processor seconds); those of processes that it started count, too."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([str(word) for word in command], stdout=out, stderr=subprocess.STDOUT, **more)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return child.returncode, out.read(), used.ru_maxrss * 1024, used.ru_utime + used.ru_stime
