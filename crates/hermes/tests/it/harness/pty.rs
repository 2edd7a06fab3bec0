//! A pseudo-terminal with a program on it.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    os::{
        fd::AsFd,
        unix::{fs::OpenOptionsExt, process::CommandExt},
    },
    process::{Child, Command},
    thread::JoinHandle,
};

use rustix::{
    fs::OFlags,
    io::{FdFlags, fcntl_setfd},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::harness::test_home::TIMEOUT;

/// Starts a command with a new terminal as its stdin, stdout and stderr. Returns the other end, where keys are pressed
/// and output is read.
pub(crate) fn start(mut command: Command, columns: u16, rows: u16) -> (Child, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    // The program must not hold the end that the person sits at.
    fcntl_setfd(&master, FdFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    set_size(&master, columns, rows);
    let name = ptsname(&master, Vec::new()).unwrap();
    // It is the program's terminal and not ours, even if we had none.
    let slave = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NOCTTY.bits().cast_signed())
        .open(name.to_str().unwrap())
        .unwrap();
    command
        .stdin(slave.try_clone().unwrap())
        .stdout(slave.try_clone().unwrap())
        .stderr(slave);
    take_terminal(&mut command);
    // The command holds the program's end of the terminal; dropped, the end of the program is the end of output.
    (command.spawn().unwrap(), File::from(master))
}

pub(crate) fn set_size(terminal: impl AsFd, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

/// Reads what the program writes, until its end.
pub(crate) fn read_output(mut terminal: &File, mut take: impl FnMut(&[u8])) {
    let mut bytes = [0; 4096];
    let mut has_ended = false;
    loop {
        match terminal.read(&mut bytes) {
            Ok(count @ 1..) => take(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The end of the program shows as an error, which Linux may report before its last words: read once more.
            Ok(0) | Err(_) if has_ended => return,
            Ok(_) | Err(_) => has_ended = true,
        }
    }
}

/// Waits for the end of the program and of what it wrote: its exit code.
#[track_caller]
pub(crate) fn wait(
    child: &mut Child,
    reader: &JoinHandle<()>,
    screen: impl Fn() -> String,
) -> Option<i32> {
    let status = hermes_testkit::wait_for(TIMEOUT, || {
        // Nothing is left to be read once nobody has the terminal any more.
        let status = child.try_wait().unwrap();
        status.filter(|_| reader.is_finished())
    });
    let status = status.unwrap_or_else(|| panic!("still running:\n{}", screen()));
    status.code()
}

/// Makes stdin the terminal that Ctrl-C comes from.
#[expect(unsafe_code, reason = "only a new process can take a terminal")]
fn take_terminal(command: &mut Command) {
    // SAFETY: both calls are system calls that may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
}
