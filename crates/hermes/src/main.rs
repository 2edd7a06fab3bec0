//! The `hermes` program: reads its arguments, runs one command, ends with its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The guard of local servers' processes is this program in a hidden mode. It has to start in a blink, so it comes
    // before everything else.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == hermes::GUARD_ARGUMENT)
    {
        return hermes_mcp::process::guard::run();
    }
    hermes::run()
}
