import functions_framework


@functions_framework.http
def upper(request):
    return request.get_data(as_text=True).upper()


@functions_framework.cloud_event
def event(cloud_event):
    print(cloud_event["type"], cloud_event["id"], cloud_event.data["n"])
