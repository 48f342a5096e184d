// The API's documentation, from local files. The bundle defines SwaggerUIBundle on window.
window.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger",
  deepLinking: true,
  validatorUrl: null,
});
