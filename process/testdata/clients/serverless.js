// An app of Express as a function.

const express = require("express");
const serverless = require("serverless-http");

const app = express();
app.use(express.text());
app.post("/upper", (request, response) => response.type("text").send(request.body.toUpperCase()));

exports.handler = serverless(app);
