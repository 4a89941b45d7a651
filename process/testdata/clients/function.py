"""A function of Lambda that does what its event says."""

import os
import sys
import time


def handler(event, context):
    arg = event.get("Arg", "")
    match event["Do"]:
        case "ok":
            return arg
        case "log":
            print(arg)
            sys.stderr.write("no line feed")
            return None
        case "deadline":
            return context.get_remaining_time_in_millis()
        case "context":
            return {
                "arn": context.invoked_function_arn, "client": context.client_context.client.app_title, "id": context.aws_request_id,
                "name": context.function_name, "trace": os.environ["_X_AMZN_TRACE_ID"],
            }
        case "error":
            raise ValueError(arg)
        case "exit":
            print("last words", file=sys.stderr)
            sys.stderr.flush()
            os._exit(3)
        case "sleep":
            time.sleep(3600)
        case "panic":
            os.abort()
        case "odd":
            return {1, 2}
        case "big":
            return "x" * int(arg)
        case "pid":
            return os.getpid()
