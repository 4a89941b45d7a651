"""Functions that web frameworks, powertools and batches serve."""

import apig_wsgi
import flask
import mangum
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

web = flask.Flask("web")


@web.post("/upper")
def upper():
    return flask.request.get_data(as_text=True).upper()


async def star(request: Request) -> PlainTextResponse:
    return PlainTextResponse((await request.body()).decode().upper())


of_flask = apig_wsgi.make_lambda_handler(web)
of_starlette = mangum.Mangum(Starlette(routes=[Route("/upper", star, methods=["POST"])]), lifespan="off")
logger = Logger(service="tools")
processor = BatchProcessor(event_type=EventType.SQS)


def check(record):
    if record.body == "bad":
        raise ValueError("bad record")


@logger.inject_lambda_context
def handler(event, context):
    if event.get("Records"):
        return process_partial_response(event=event, record_handler=check, processor=processor, context=context)
    if event["framework"] == "flask":
        return of_flask(event, context)
    return of_starlette(event, context)
