//! The programs that the official conformance suite needs: a client it can drive (`hermes-conformance URL`) and a server
//! it can call (`hermes-conformance serve bridge`). Both are the product's own code with something to do.

#![expect(
    deprecated,
    reason = "sampling, roots and logging are part of the older revisions under test"
)]

use anyhow::bail;

mod client;
mod server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", mount] => server::run(mount.parse()?).await,
        [url] => client::run(url).await,
        _ => bail!("usage: hermes-conformance URL, or hermes-conformance serve bridge"),
    }
}
