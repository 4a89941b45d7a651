import os

import flask

app = flask.Flask("web")


@app.post("/")
def upper():
    return flask.request.get_data(as_text=True).upper()


if __name__ == "__main__":
    app.run(port=int(os.environ["PORT"]))
