// A function of Lambda that does what its event says.

const fs = require("node:fs");

exports.handler = async (event, context) => {
  const arg = event.Arg ?? "";
  switch (event.Do) {
    case "ok":
      return arg;
    case "log":
      process.stdout.write(arg + "\n");
      process.stderr.write("no line feed");
      return null;
    case "deadline":
      return context.getRemainingTimeInMillis();
    case "context":
      return {
        arn: context.invokedFunctionArn, client: context.clientContext.client.app_title, id: context.awsRequestId,
        name: context.functionName, trace: process.env._X_AMZN_TRACE_ID,
      };
    case "error":
      throw new RangeError(arg);
    case "panic":
      setImmediate(() => { throw new RangeError(arg); });
      return new Promise(() => {});
    case "exit":
      fs.writeSync(2, "last words\n");
      return process.exit(3);
    case "sleep":
      return new Promise((resolve) => setTimeout(resolve, 3600e3));
    case "odd":
      return 1n;
    case "big":
      return "x".repeat(Number(arg));
    case "pid":
      return process.pid;
  }
};

// stream streams its event, or fails in the middle.
exports.stream = awslambda.streamifyResponse(async (event, stream) => {
  if (event !== "fail") {
    stream.write(event);
    stream.end();
    return;
  }
  stream.write("begun ");
  throw new RangeError("in the middle");
});
