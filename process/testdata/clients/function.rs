//! A function of Lambda that does what its event says.

use lambda_runtime::{run, run_concurrent, service_fn, Error, LambdaEvent, StreamResponse};
use serde::Deserialize;
use serde_json::{json, Value};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_stream::{iter, Stream};

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Do")]
    what: String,
    #[serde(rename = "Arg", default)]
    arg: String,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    match std::env::args().nth(1).as_deref() {
        Some("broken") => Err("no table".into()),
        Some("stream") => run(service_fn(stream)).await,
        _ => run_concurrent(service_fn(handle)).await,
    }
}

async fn handle(event: LambdaEvent<Event>) -> Result<Value, Error> {
    let (Event { what, arg }, context) = event.into_parts();
    Ok(match what.as_str() {
        "ok" => json!(arg),
        "log" => {
            println!("{arg}");
            eprint!("no line feed");
            Value::Null
        }
        "deadline" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            json!(context.deadline - now.as_millis() as u64)
        }
        "context" => json!({
            "arn": context.invoked_function_arn, "client": context.client_context.map(|c| c.client.app_title),
            "id": context.request_id, "name": context.env_config.function_name, "trace": context.xray_trace_id,
        }),
        "error" => return Err(arg.into()),
        "panic" => panic!("{arg}"),
        "exit" => {
            eprintln!("last words");
            std::process::exit(3)
        }
        "sleep" => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Value::Null
        }
        "big" => json!("x".repeat(arg.parse()?)),
        "pid" => json!(std::process::id()),
        other => return Err(format!("no such deed: {other}").into()),
    })
}

/// Streams its event, or fails in the middle.
async fn stream(event: LambdaEvent<String>) -> Result<StreamResponse<impl Stream<Item = Result<String, Error>>>, Error> {
    let pieces = match event.payload.as_str() {
        "fail" => vec![Ok("begun ".to_string()), Err("in the middle".into())],
        text => vec![Ok(text.to_string())],
    };
    Ok(StreamResponse::from(iter(pieces)))
}
