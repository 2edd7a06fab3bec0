//! A scripted MCP server over HTTP: `testkit-http [--port PORT] [BEHAVIOUR]`. The first line on stdout is its URL.

use std::io::Write;

use hermes_testkit::{Behaviour, DETACH, HttpServer, detach};

fn main() -> std::io::Result<()> {
    let mut port = 0;
    let mut behaviour = Behaviour::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            DETACH => return writeln!(std::io::stdout(), "{}", detach()?),
            "--port" => {
                port = arguments
                    .next()
                    .and_then(|port| port.parse().ok())
                    .ok_or_else(|| std::io::Error::other("--port needs a number"))?;
            }
            description => behaviour = Behaviour::from_argument(description)?,
        }
    }
    let mut server = HttpServer::start_on(port, behaviour);
    writeln!(std::io::stdout(), "{}", server.url())?;
    server.wait();
    Ok(())
}
