//! Running a program for what it prints: limited in time and size, ended with all that it started.

use std::{
    io::{self, Read, Write},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::Secret;

const OUTPUT_LIMIT: u64 = 64 * 1024;

/// What a command prints, if it ends well within `limit`; else all that it started is ended. The input
/// goes through a pipe, so that no other process sees it.
pub(crate) fn run_program(
    command: &mut Command,
    input: Option<&Secret<String>>,
    limit: Duration,
) -> Result<String, String> {
    command.stdout(Stdio::piped()).stdin(match input {
        Some(_) => Stdio::piped(),
        None => Stdio::null(),
    });
    // A group of its own, so that it can be ended as a whole.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let mut child = command.spawn().map_err(|error| {
        let program = command.get_program().to_string_lossy();
        format!("`{program}` cannot be started: {error}")
    })?;
    if let (Some(input), Some(mut pipe)) = (input.cloned(), child.stdin.take()) {
        // A program that does not read would hold up whoever writes; the thread ends with it.
        thread::spawn(move || pipe.write_all(input.expose().as_bytes()));
    }
    let result = wait_for_output(&mut child, limit);
    if result.is_err() {
        kill_group(&mut child);
    }
    result
}

fn wait_for_output(child: &mut Child, limit: Duration) -> Result<String, String> {
    let deadline = Instant::now() + limit;
    let too_slow = || format!("it took longer than {limit:?}");
    let stdout = child.stdout.take().ok_or("its output is not connected")?;
    // The thread ends when the output does, at the latest when the group is killed.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(read_limited(stdout, OUTPUT_LIMIT)));
    let bytes = receiver
        .recv_timeout(limit)
        .map_err(|_| too_slow())?
        .map_err(|error| error.to_string())?
        .ok_or("it printed more than 64 KiB")?;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() >= deadline => return Err(too_slow()),
            // Only a program that closed its output early and runs on is waited for here.
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    if !status.success() {
        return Err(format!("it ended with {status}"));
    }
    decode_text(bytes)
}

fn kill_group(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        // Fails only if the whole group has ended.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The content, or `None` if there is more than `limit` of it.
pub(crate) fn read_limited(reader: impl Read, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// As text, without the line break at its end.
pub(crate) fn decode_text(bytes: Vec<u8>) -> Result<String, String> {
    let mut text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended_with_all_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", "sh -c 'echo $$ >pid; exec sleep 60' & wait"])
            .current_dir(directory.path());
        // Long enough for both shells to start, on a busy machine too.
        let error = run_program(&mut command, None, Duration::from_secs(3)).unwrap_err();
        assert_eq!(error, "it took longer than 3s");

        let pid = fs::read_to_string(directory.path().join("pid")).unwrap();
        let gone = (0..1500).any(|_| {
            thread::sleep(Duration::from_millis(20));
            // An orphan stays a zombie where nobody reaps it.
            match fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
                Ok(stat) => stat.contains(") Z "),
                Err(_) => true,
            }
        });
        assert!(gone);
    }

    #[test]
    fn a_command_that_closes_its_output_is_still_waited_for() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo x; exec >&-; sleep 0.1; exit 4"]);
        let error = run_program(&mut command, None, Duration::from_secs(5)).unwrap_err();
        assert_eq!(error, "it ended with exit status: 4");
    }

    #[test]
    fn what_a_program_reads_comes_through_a_pipe() {
        let mut command = Command::new("sh");
        command.args(["-c", "tr a-z A-Z"]);
        let input = Secret::new("hunter".to_owned());
        let output = run_program(&mut command, Some(&input), Duration::from_secs(10));
        assert_eq!(output.as_deref(), Ok("HUNTER"));
    }
}
