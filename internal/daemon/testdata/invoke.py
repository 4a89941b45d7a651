"""Calls all that the Lambda front can do, by boto3."""

import base64
import concurrent.futures
import json
import os

import boto3
from botocore.config import Config


def client(key="AKIDTEST", secret="secret-of-the-test", region="eu-west-1"):
    return boto3.client(
        "lambda", aws_access_key_id=key, aws_secret_access_key=secret, region_name=region,
        config=Config(retries={"max_attempts": 1}),
    )


def refused(c, code, status, **call):
    """Checks the error that a call raises."""
    try:
        c.invoke(**call)
    except c.exceptions.ClientError as e:
        got = e.response["Error"]["Code"], e.response["ResponseMetadata"]["HTTPStatusCode"]
        assert got == (code, status), (call, e)
        assert e.response["Error"]["Message"], e.response
        return e
    raise AssertionError(f"{call} is not refused")


c = client()
for name in ("f", "f:$LATEST", "123456789012:function:f", "arn:aws:lambda:eu-west-1:123456789012:function:f"):
    a = c.invoke(FunctionName=name, Payload=json.dumps({"ü": " x  y "}))
    got = json.load(a["Payload"])
    assert a["StatusCode"] == 200 and a["ExecutedVersion"] == "$LATEST" and "FunctionError" not in a, a
    assert got["event"] == {"ü": " x  y "}, got
    assert got["meta"]["lambda.function-arn"].startswith("arn:aws:lambda:eu-west-1:"), got
    assert got["meta"]["lambda.request-id"] == a["ResponseMetadata"]["RequestId"], a
assert json.load(c.invoke(FunctionName="f", Qualifier="$LATEST")["Payload"])["event"] == {}

context = {"client": {"app_title": "test"}, "custom": {"a": "b"}}
a = c.invoke(FunctionName="f", ClientContext=base64.b64encode(json.dumps(context).encode()).decode())
assert json.loads(json.load(a["Payload"])["meta"]["lambda.client-context"]) == context

a = c.invoke(FunctionName="f", LogType="Tail", Payload='{"do": "log"}')
assert "it is logged" in base64.b64decode(a["LogResult"]).decode(), a
assert c.invoke(FunctionName="f", InvocationType="DryRun")["StatusCode"] == 204
assert c.invoke(FunctionName="quiet", InvocationType="Event", Payload="{}")["StatusCode"] == 202

for name, do, kind in (("f", "fail", None), ("f", "exit", "Runtime.ExitError"), ("brief", "sleep", "Sandbox.Timedout")):
    a = c.invoke(FunctionName=name, Payload=json.dumps({"do": do}))
    got = json.load(a["Payload"])
    assert a["StatusCode"] == 200 and a["FunctionError"] == "Unhandled", a
    assert got["errorMessage"] and isinstance(got["stackTrace"], list) and (kind is None or got["errorType"] == kind), got

e = refused(c, "ResourceNotFoundException", 404, FunctionName="none")
assert isinstance(e, c.exceptions.ResourceNotFoundException) and e.response["Type"] == "User", e.response
refused(c, "ResourceNotFoundException", 404, FunctionName="f", Qualifier="7")
refused(c, "ResourceNotFoundException", 404, FunctionName="arn:aws:lambda:eu-west-2:123456789012:function:f")
e = refused(c, "InvalidRequestContentException", 400, FunctionName="f", Payload="{")
assert isinstance(e, c.exceptions.InvalidRequestContentException), e
e = refused(c, "InvalidParameterValueException", 400, FunctionName="quiet")
assert isinstance(e, c.exceptions.InvalidParameterValueException), e
e = refused(c, "RequestTooLargeException", 413, FunctionName="f", Payload=json.dumps("x" * (6 << 20)))
assert isinstance(e, c.exceptions.RequestTooLargeException), e
refused(c, "RequestTooLargeException", 413, FunctionName="f", InvocationType="Event", Payload=json.dumps("x" * (1 << 20)))
assert json.load(c.invoke(FunctionName="f", Payload=json.dumps({"x": "y" * (5 << 20)}))["Payload"])["event"]["x"] == "y" * (5 << 20)

refused(client(key="AKIDOTHER"), "UnrecognizedClientException", 403, FunctionName="f")
refused(client(secret="another-secret"), "InvalidSignatureException", 403, FunctionName="f")
refused(client(region="eu-west-2"), "InvalidSignatureException", 403, FunctionName="f")

# A full pool: one invocation runs, one waits, the others are refused.
hold = os.path.abspath("hold")
with concurrent.futures.ThreadPoolExecutor() as threads:
    calls = [threads.submit(c.invoke, FunctionName="narrow", Payload=json.dumps({"do": "hold", "file": hold})) for _ in range(4)]
    try:
        done, _ = concurrent.futures.wait(calls, return_when=concurrent.futures.FIRST_EXCEPTION)
    finally:
        open(hold, "w").close()
full = [e for e in (call.exception() for call in calls) if e]
assert full and all(isinstance(e, c.exceptions.TooManyRequestsException) for e in full), full
assert full[0].response["Reason"] == "ReservedFunctionConcurrentInvocationLimitExceeded", full[0].response
assert all(call.result()["Payload"].read() == b"held" for call in calls if not call.exception())

for payload, code in (({"x": "y" * (3 << 20)}, None), ({"do": "exit"}, "Runtime.ExitError")):
    a = c.invoke_with_response_stream(FunctionName="f", LogType="Tail", Payload=json.dumps(payload))
    assert a["StatusCode"] == 200 and a["ExecutedVersion"] == "$LATEST", a
    events = list(a["EventStream"])
    end = events[-1]["InvokeComplete"]
    result = b"".join(e["PayloadChunk"]["Payload"] for e in events[:-1])
    assert end.get("ErrorCode") == code and "START" in base64.b64decode(end["LogResult"]).decode(), end
    if code is None:
        assert json.loads(result)["event"] == payload and len(events) > 2
    else:
        assert json.loads(end["ErrorDetails"])["errorType"] == code and not result, end
print("all is well")
