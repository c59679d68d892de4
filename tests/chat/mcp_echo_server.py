"""A small MCP server on standard input and output.

It has the protocol from before 2026. Its argument makes it misbehave.
"""

import json
import os
import sys

PAGES = [
    [
        {
            "name": "echo.text",
            "description": "Return the text",
            "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
        }
    ],
    [
        {"name": name, "inputSchema": {"type": "object"}}
        for name in ("die", "hang", "break", "flood", "process_id")
    ],
]


def answer(message: dict) -> dict | None:  # type: ignore[type-arg]
    """Return the result of a request; None for a notification."""
    match message["method"]:
        case "initialize":
            return {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            }
        case "tools/list":
            page = int((message.get("params") or {}).get("cursor") or 0)
            more = {"nextCursor": str(page + 1)} if page + 1 < len(PAGES) else {}
            return {"tools": PAGES[page], **more}
        case "tools/call" if message["params"]["name"] == "die":
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(1)
        case "tools/call" if message["params"]["name"] == "hang":
            sys.exit(sys.stdin.read() and None)
        case "tools/call" if message["params"]["name"] == "flood":
            print("x" * 1_000_000, flush=True)
        case "tools/call" if message["params"]["name"] == "process_id":
            return {"content": [{"type": "text", "text": str(os.getpid())}]}
        case "tools/call":
            text = message["params"]["arguments"].get("text")
            if text is None:
                return {"content": [{"type": "text", "text": "text is missing"}], "isError": True}
            secret = os.environ.get("MLXCTL_API_KEY", "no key")
            return {"content": [{"type": "text", "text": f"{text} ({secret}, {os.environ.get('MARK')})"}]}
    return None


def main() -> None:
    """Answer until standard input ends."""
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    if mode == "fail":
        sys.exit("no license found")
    if mode == "silent":
        sys.stdin.read()
    if mode == "chatty":
        print("Server runs on standard output")
    if mode == "many":
        PAGES[:] = [
            [{"name": f"tool_{index}", "inputSchema": {"type": "object"}} for index in range(500)],
            [{"name": f"more_{index}", "inputSchema": {"type": "object"}} for index in range(700)],
        ]
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message)
        body = (
            {"error": {"code": -32601, "message": "unknown method"}} if result is None else {"result": result}
        )
        if (message.get("params") or {}).get("name") == "break":
            body = {"error": {"code": -32000, "message": "the disk is full"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)


if __name__ == "__main__":
    main()
