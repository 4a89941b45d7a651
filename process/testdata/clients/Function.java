import com.amazonaws.services.lambda.runtime.Context;
import java.util.Map;

/** A function of Lambda that does what its event says. */
public class Function {
	public Object handle(Map<String, String> event, Context context) throws Exception {
		String arg = event.getOrDefault("Arg", "");
		switch (event.get("Do")) {
		case "ok":
			return arg;
		case "log":
			System.out.println(arg);
			System.err.print("no line feed");
			return null;
		case "deadline":
			return context.getRemainingTimeInMillis();
		case "context":
			return Map.of(
				"arn", context.getInvokedFunctionArn(), "client", context.getClientContext().getClient().getAppTitle(),
				"id", context.getAwsRequestId(), "name", context.getFunctionName(),
				"trace", System.getProperty("com.amazonaws.xray.traceHeader"));
		case "error":
			throw new IllegalStateException(arg);
		case "panic":
			throw new AssertionError(arg);
		case "exit":
			System.err.println("last words");
			System.exit(3);
		case "sleep":
			Thread.sleep(3_600_000);
		case "odd":
			return new Object() {
				public Object getSelf() {
					throw new IllegalStateException("not for you");
				}
			};
		case "big":
			return "x".repeat(Integer.parseInt(arg));
		case "pid":
			return ProcessHandle.current().pid();
		}
		throw new IllegalArgumentException("no such deed: " + event.get("Do"));
	}
}
