# Shortcuts for those who have `just`. Each is one line to type by hand as well.

# Lints, in tests too
check:
    cargo clippy --locked --workspace --all-targets -- -D warnings

# Everything: the same as CI
test *stages:
    ./test {{stages}}

# The tests that need nothing installed; arguments go to nextest (`just it -p hermes-mcp`)
it *arguments:
    cargo build --locked --workspace --all-targets && cargo nextest run --locked --workspace {{arguments}}

# The official MCP suite against our client, or `just conformance server bridge`
conformance side="client" *arguments:
    conformance/run {{side}} {{arguments}}

# Random input for the Hub, each kind for so many seconds
fuzz seconds="600" *subject:
    scripts/fuzz {{seconds}} {{subject}}

bench subject="host" *arguments:
    bench/run {{subject}} {{arguments}}

docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps

# Licences, banned crates and sources of the dependencies
deny:
    cargo deny --locked check licenses bans sources

# Known vulnerabilities of the dependencies; fetches a database
advisories:
    cargo deny --locked check advisories

fmt:
    cargo fmt --all

# The binary as it is published
release:
    cargo build --locked --profile dist -p hermes
