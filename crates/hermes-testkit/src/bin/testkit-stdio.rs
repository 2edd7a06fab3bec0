//! A scripted MCP server on stdin and stdout: `testkit-stdio [--echo] [BEHAVIOUR]`, where the behaviour is
//! JSON or `@` and a file.

use std::{io::Write, process::ExitCode};

use hermes_testkit::{Behaviour, DETACH, EchoPath, detach, serve_stdio};

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "testkit-stdio: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> std::io::Result<i32> {
    let mut echo = EchoPath::Scripted;
    let mut behaviour = Behaviour::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            DETACH => {
                writeln!(std::io::stdout(), "{}", detach()?)?;
                return Ok(0);
            }
            "--echo" => echo = EchoPath::Fast,
            description => behaviour = Behaviour::from_argument(description)?,
        }
    }
    serve_stdio(behaviour, echo, exit)
}

#[expect(clippy::exit, reason = "a crash in the middle of a call is the point")]
fn exit(code: i32) {
    std::process::exit(code)
}
