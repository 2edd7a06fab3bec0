//! Commands that change the configuration.

mod add;
mod asked;
mod catalog;
mod configure;
mod import;
mod install;
mod pins;
mod remove;
mod running;
mod switch;
mod tools;

/// A file with everything an edit could spoil: comments, quoting, order, references.
const COMMENTED: &str = "\
# My servers.
model: 'gpt-5'   # the best

mcp_servers:
  # Talks to the shop.
  shop:
    url: \"https://shop.example.com/mcp\"   # staging
    headers: {Authorization: 'Bearer ${SHOP_TOKEN}'}
    tools:
      # Never delete anything.
      exclude: [delete_order]
      resources: no
      prompts: false

  # Files, read only.
  files:
    command: npx
    args: [\"-y\", '@modelcontextprotocol/server-filesystem', /tmp]
    timeout: 90

approvals:
  mcp_reload_confirm: true
";
