//! A scripted model: `testkit-model [--port PORT] [SCRIPT]`. The first line on stdout is its base URL.

use std::io::Write;

use hermes_testkit::model::{ModelScript, ModelServer};

fn main() -> std::io::Result<()> {
    let mut port = 0;
    let mut script = ModelScript::echo();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--port" => {
                port = arguments
                    .next()
                    .and_then(|port| port.parse().ok())
                    .ok_or_else(|| std::io::Error::other("--port needs a number"))?;
            }
            description => script = ModelScript::from_argument(description)?,
        }
    }
    let mut server = ModelServer::start_on(port, script);
    writeln!(std::io::stdout(), "{}", server.base_url())?;
    server.wait();
    Ok(())
}
