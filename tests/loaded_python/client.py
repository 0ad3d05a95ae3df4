"""Asks the server for a program, gives it its streams, and ends as the program does.

python client.py <socket> <arguments>
"""

import json
import os
import signal
import socket
import sys


def main(address: str, arguments: list[str]) -> int:
    request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [b"\n"], [0, 1, 2])
        server.sendall(json.dumps(request).encode() + b"\n")
        exit_code = int(server.makefile().readline())
    if exit_code < 0:
        if -exit_code != signal.SIGKILL:
            signal.signal(-exit_code, signal.SIG_DFL)
        os.kill(os.getpid(), -exit_code)
    return exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
