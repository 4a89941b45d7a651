// Calls all that the Lambda front can do, by the AWS SDK for JavaScript.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { InvokeCommand, InvokeWithResponseStreamCommand, LambdaClient } = require("@aws-sdk/client-lambda");

const client = ({ key = "AKIDTEST", secret = "secret-of-the-test", region = "eu-west-1" } = {}) =>
  new LambdaClient({ region, credentials: { accessKeyId: key, secretAccessKey: secret }, maxAttempts: 1 });
const c = client();
const text = (bytes) => Buffer.from(bytes).toString();
const base64 = (data) => Buffer.from(JSON.stringify(data)).toString("base64");
const decoded = (data) => Buffer.from(data, "base64").toString();

// invoke invokes the function f, unless the call names another one.
async function invoke(call, by = c) {
  const answer = await by.send(new InvokeCommand({ FunctionName: "f", ...call, Payload: call.event === undefined ? call.Payload : JSON.stringify(call.event) }));
  return { ...answer, status: answer.$metadata.httpStatusCode, got: answer.Payload?.length ? JSON.parse(text(answer.Payload)) : undefined };
}

// refused checks the error of a call.
async function refused(name, status, call, by) {
  await assert.rejects(invoke(call, by), (e) => {
    assert.deepEqual([e.name, e.$metadata.httpStatusCode], [name, status], `${JSON.stringify(call).slice(0, 100)}: ${e}`);
    assert.ok(e.message, name);
    return true;
  });
}

async function main() {
  for (const name of ["f", "f:$LATEST", "123456789012:function:f", "arn:aws:lambda:eu-west-1:123456789012:function:f"]) {
    const a = await invoke({ FunctionName: name, event: { "ü": " x  y " } });
    assert.deepEqual([a.status, a.StatusCode, a.ExecutedVersion, a.FunctionError], [200, 200, "$LATEST", undefined]);
    assert.deepEqual(a.got.event, { "ü": " x  y " });
    assert.match(a.got.meta["lambda.function-arn"], /^arn:aws:lambda:eu-west-1:/);
    assert.equal(a.got.meta["lambda.request-id"], a.$metadata.requestId);
  }
  assert.deepEqual((await invoke({ Qualifier: "$LATEST" })).got.event, {});

  const context = { client: { app_title: "test" }, custom: { a: "b" } };
  assert.deepEqual(JSON.parse((await invoke({ ClientContext: base64(context) })).got.meta["lambda.client-context"]), context);
  assert.match(decoded((await invoke({ LogType: "Tail", event: { do: "log" } })).LogResult), /it is logged/);
  assert.equal((await invoke({ InvocationType: "DryRun" })).StatusCode, 204);
  assert.equal((await invoke({ FunctionName: "quiet", InvocationType: "Event", event: {} })).StatusCode, 202);

  for (const [name, what, kind] of [["f", "fail"], ["f", "exit", "Runtime.ExitError"], ["brief", "sleep", "Sandbox.Timedout"]]) {
    const a = await invoke({ FunctionName: name, event: { do: what } });
    assert.deepEqual([a.StatusCode, a.FunctionError], [200, "Unhandled"]);
    assert.ok(a.got.errorMessage && Array.isArray(a.got.stackTrace) && (!kind || a.got.errorType === kind), a.got);
  }

  await refused("ResourceNotFoundException", 404, { FunctionName: "none" });
  await refused("ResourceNotFoundException", 404, { Qualifier: "7" });
  await refused("InvalidRequestContentException", 400, { Payload: "{" });
  await refused("InvalidParameterValueException", 400, { FunctionName: "quiet" });
  await refused("RequestTooLargeException", 413, { event: "x".repeat(6 << 20) });
  await refused("RequestTooLargeException", 413, { InvocationType: "Event", event: "x".repeat(1 << 20) });
  await refused("UnrecognizedClientException", 403, {}, client({ key: "AKIDOTHER" }));
  await refused("InvalidSignatureException", 403, {}, client({ secret: "another-secret" }));
  await refused("InvalidSignatureException", 403, {}, client({ region: "eu-west-2" }));

  // A full pool: one invocation runs, one waits, the others are refused.
  const hold = path.resolve("hold");
  const calls = Array.from({ length: 4 }, () => c.send(new InvokeCommand({ FunctionName: "narrow", Payload: JSON.stringify({ do: "hold", file: hold }) })));
  const settled = Promise.allSettled(calls);
  await assert.rejects(Promise.all(calls), { name: "TooManyRequestsException" });
  fs.writeFileSync(hold, "");
  const ends = await settled;
  assert.ok(ends.every((e) => e.status === "rejected" ? e.reason.name === "TooManyRequestsException" : text(e.value.Payload) === "held"), ends);
  assert.ok(ends.some((e) => e.status === "fulfilled"));

  for (const [event, code] of [[{ x: "y".repeat(3 << 20) }], [{ do: "exit" }, "Runtime.ExitError"]]) {
    const a = await c.send(new InvokeWithResponseStreamCommand({ FunctionName: "f", LogType: "Tail", Payload: JSON.stringify(event) }));
    assert.deepEqual([a.StatusCode, a.ExecutedVersion], [200, "$LATEST"]);
    const pieces = [];
    let end;
    for await (const e of a.EventStream) {
      if (e.PayloadChunk) pieces.push(Buffer.from(e.PayloadChunk.Payload));
      else end = e.InvokeComplete;
    }
    assert.equal(end.ErrorCode, code);
    assert.match(decoded(end.LogResult), /START/);
    const result = Buffer.concat(pieces).toString();
    if (code) {
      assert.deepEqual([JSON.parse(end.ErrorDetails).errorType, result], [code, ""]);
    } else {
      assert.deepEqual(JSON.parse(result).event, event);
      assert.ok(pieces.length > 1);
    }
  }
  console.log("all is well");
}

main();
