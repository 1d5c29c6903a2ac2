// Starts `einc lsp` and hands it the specs, and the papers that may have an `ein` fence.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = (context) => {
  const [command, ...args] = workspace.getConfiguration("ein").get("command");
  const watcher = workspace.createFileSystemWatcher("**/*.ein");
  context.subscriptions.push(watcher);
  const languages = ["ein", "markdown", "latex", "tex"];
  client = new LanguageClient("ein", "ein", { command, args }, {
    documentSelector: languages.map((language) => ({ scheme: "file", language })),
    synchronize: { fileEvents: watcher },
  });
  return client.start();
};

exports.deactivate = () => client && client.stop();
