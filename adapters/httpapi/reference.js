Scalar.createApiReference("#reference", {
  url: "/api/v1/openapi.json",
  documentDownloadType: "direct",
  modelsSectionLabel: "Schemas",
  orderSchemaPropertiesBy: "preserve",
  orderRequiredPropertiesFirst: false,
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  generateOperationSlug: (operation) => operation.operationId,

  // Whatever would ask another server, or offers to, is off. Without a proxy, requests
  // go to this server alone; undefined would be the renderer's own proxy.
  proxyUrl: "",
  externalUrls: { dashboardUrl: "", registryUrl: "", proxyUrl: "", apiBaseUrl: "" },
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  hideClientButton: true,

  // A token that is typed in is gone with the page.
  persistAuth: false,
});
