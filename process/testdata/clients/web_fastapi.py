import fastapi

app = fastapi.FastAPI()


@app.post("/")
async def upper(request: fastapi.Request):
    return fastapi.Response((await request.body()).decode().upper(), media_type="text/plain")
