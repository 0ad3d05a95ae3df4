"""Asks the server for a program, gives it its streams, and ends as the program does.

python client.py <socket> <arguments>
"""

import json
import os
import signal
import socket
import sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    request = {"arguments": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd()}
    socket.send_fds(server, [b"\n"], [0, 1, 2])
    server.sendall(json.dumps(request).encode() + b"\n")
    exit_code = int(server.makefile().readline())
if exit_code < 0:
    if -exit_code != signal.SIGKILL:
        signal.signal(-exit_code, signal.SIG_DFL)
    os.kill(os.getpid(), -exit_code)
sys.exit(exit_code)
