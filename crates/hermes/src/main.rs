//! The `hermes` program: reads its arguments, runs one command, ends with its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The guard of local servers' processes is this program in a hidden mode. It has to start in a blink, so it comes
    // before everything else.
    let mode = std::env::args_os().nth(1);
    if mode
        .as_ref()
        .is_some_and(|mode| mode == hermes::GUARD_ARGUMENT)
    {
        return hermes_mcp::process::guard::run();
    }
    // A tenant of a Hub confines itself before there is a second thread, which would stay outside.
    #[cfg(unix)]
    if mode
        .as_ref()
        .is_some_and(|mode| mode == hermes::embedded_hub::runtime::launcher::ARGUMENT)
    {
        return hermes::embedded_hub::runtime::launcher::run();
    }
    // What the self-test of the isolation lets a tenant try.
    #[cfg(unix)]
    if mode.is_some_and(|mode| mode == hermes::embedded_hub::runtime::CONNECT_ARGUMENT) {
        return hermes::embedded_hub::runtime::try_connect();
    }
    hermes::run()
}
