const express = require("express");
const app = express();
app.use(express.text({ type: "*/*" }));
app.post("/", (request, response) => response.send(request.body.toUpperCase()));
app.listen(process.env.PORT);
