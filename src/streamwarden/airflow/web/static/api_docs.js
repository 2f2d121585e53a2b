// Shows the description of the API. Nothing is loaded from another host, so the validator of swagger.io is off.
"use strict";
window.SwaggerUIBundle({
  url: document.getElementById("docs").dataset.document,
  dom_id: "#docs",
  deepLinking: true,
  docExpansion: "list",
  validatorUrl: null,
});
