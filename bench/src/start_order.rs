//! The functions that short commands call, in the order of their first calls. Laid side by side by the linker, they take
//! a few pages of memory; strewn over the program, each brings in the 64 KB around it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    os::unix::{
        fs::FileExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Command, ExitCode, ExitStatus, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{cold_start::ten_servers, environment, environment::Programs};

/// What is recorded: what everything begins with, then a command that reads the configuration, then a server that is
/// told at once to end. None of them starts a process, which would run into the breakpoints without us.
const COMMANDS: [&[&str]; 3] = [&["--version"], &["mcp", "list"], &["mcp", "serve"]];
/// The instruction that stops the process.
const BREAKPOINT: u8 = 0xcc;
/// Where names begin in a line of the map, after four columns of numbers.
const NAME_COLUMN: usize = 49;

/// Prints the order, by the map that the linker has written of the program.
pub(crate) fn print_order(programs: &Programs, map: &Path) -> Result<ExitCode> {
    let text = fs::read_to_string(map).with_context(|| map.display().to_string())?;
    let functions = parse_functions(&text);
    ensure!(
        !functions.is_empty(),
        "{}: no functions in it; is it a map of lld's?",
        map.display()
    );
    let home = environment::home_with_servers(&ten_servers(programs));
    let mut order = Vec::new();
    for arguments in COMMANDS {
        let mut command = Command::new(&programs.hermes);
        command
            .args(arguments)
            .env("HERMES_HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let called = TracedProcess::start(command, &functions)?.run()?;
        order.extend(
            called
                .into_iter()
                .filter(|name| !order.contains(name))
                .collect::<Vec<_>>(),
        );
    }
    let mut stdout = std::io::stdout().lock();
    for name in order {
        writeln!(stdout, "{name}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where each function of the map begins, from the beginning of the program.
fn parse_functions(map: &str) -> BTreeMap<u64, &str> {
    let mut functions = BTreeMap::new();
    let mut is_text = false;
    for line in map.lines().skip(1) {
        let mut fields = line.split_whitespace();
        let address = fields
            .next()
            .and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let size = fields
            .nth(1)
            .and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let (Some(address), Some(size)) = (address, size) else {
            continue;
        };
        // The kind of a line is how far its name is set in.
        let Some(name) = line.get(NAME_COLUMN..) else {
            continue;
        };
        match name.len() - name.trim_start().len() {
            0 => is_text = name == ".text",
            16 if is_text && size > 0 => {
                functions.entry(address).or_insert(name.trim_start());
            }
            _ => {}
        }
    }
    functions
}

/// A process that stops at the first call of each function.
struct TracedProcess<'a> {
    pid: libc::pid_t,
    memory: File,
    /// By their addresses in the process: the name, and the byte that the breakpoint stands for.
    functions: BTreeMap<u64, (&'a str, u8)>,
}

impl<'a> TracedProcess<'a> {
    #[expect(unsafe_code, reason = "no safe interface lets a child be traced")]
    fn start(mut command: Command, functions: &BTreeMap<u64, &'a str>) -> Result<Self> {
        // SAFETY: one system call, which a child may make between fork and exec.
        unsafe {
            command.pre_exec(|| ptrace_request(libc::PTRACE_TRACEME, 0, 0));
        }
        let program = command.get_program().to_owned();
        let child = command.spawn()?;
        let pid = libc::pid_t::try_from(child.id())?;
        // It stops when it has become the program.
        wait_for_thread(pid)?;
        ptrace_request(
            libc::PTRACE_SETOPTIONS,
            pid,
            (libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL) as usize,
        )?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let base = maps
            .lines()
            .find(|line| line.ends_with(&*program.to_string_lossy()))
            .and_then(|line| line.split('-').next())
            .context("the program is not in its own memory")?;
        let base = u64::from_str_radix(base, 16)?;
        let memory = File::options()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))?;
        let mut armed = BTreeMap::new();
        for (offset, name) in functions {
            let mut byte = [0];
            memory.read_exact_at(&mut byte, base + offset)?;
            memory.write_all_at(&[BREAKPOINT], base + offset)?;
            armed.insert(base + offset, (*name, byte[0]));
        }
        Ok(Self {
            pid,
            memory,
            functions: armed,
        })
    }

    /// Runs it to its end; gives the names in the order of the first calls.
    fn run(self) -> Result<Vec<&'a str>> {
        let mut called = Vec::new();
        ptrace_request(libc::PTRACE_CONT, self.pid, 0)?;
        loop {
            let (thread, status) = wait_for_thread(-1)?;
            let Some(signal) = status.stopped_signal() else {
                if thread != self.pid {
                    continue;
                }
                ensure!(status.success(), "the program ended with {status}");
                return Ok(called);
            };
            let deliver = match signal {
                // A thread was made, or is new.
                libc::SIGTRAP if status.into_raw() >> 16 != 0 => 0,
                libc::SIGSTOP => 0,
                libc::SIGTRAP => {
                    called.extend(self.step_over(thread)?);
                    0
                }
                other => other,
            };
            ptrace_request(libc::PTRACE_CONT, thread, usize::try_from(deliver)?)?;
        }
    }

    /// Takes the breakpoint away that a thread stands behind, and sets the thread back. The name, if it is the first
    /// there.
    #[expect(
        unsafe_code,
        reason = "no safe interface has the registers of a traced thread"
    )]
    fn step_over(&self, thread: libc::pid_t) -> Result<Option<&'a str>> {
        // SAFETY: all zero is a valid value of this plain structure.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let at = (&raw mut registers) as usize;
        ptrace_request(libc::PTRACE_GETREGS, thread, at)?;
        registers.rip -= 1;
        let Some((name, byte)) = self.functions.get(&registers.rip) else {
            bail!(
                "the program stopped at {:x}, where no function begins",
                registers.rip
            );
        };
        let mut present = [0];
        self.memory.read_exact_at(&mut present, registers.rip)?;
        self.memory.write_all_at(&[*byte], registers.rip)?;
        ptrace_request(libc::PTRACE_SETREGS, thread, at)?;
        Ok((present[0] == BREAKPOINT).then_some(*name))
    }
}

#[expect(unsafe_code, reason = "no safe interface has this system call")]
fn ptrace_request(request: libc::c_uint, thread: libc::pid_t, data: usize) -> std::io::Result<()> {
    // SAFETY: `data` is a number, or the address of a live `user_regs_struct` where the request takes one.
    match unsafe { libc::ptrace(request, thread, 0, data) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits for a traced thread to stop or end; -1 stands for any.
#[expect(unsafe_code, reason = "no safe interface waits for single threads")]
fn wait_for_thread(thread: libc::pid_t) -> Result<(libc::pid_t, ExitStatus)> {
    let mut status = 0;
    // SAFETY: the pointer is to a live variable of the right type.
    let thread = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    ensure!(thread > 0, std::io::Error::last_os_error());
    Ok((thread, ExitStatus::from_raw(status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_the_symbols_of_the_text_that_have_a_size() {
        let map = "\
             VMA              LMA     Size Align Out     In      Symbol
            1000             1000      2f0     8 .rodata
            1000             1000       10     8         a.o:(.rodata.table)
            1000             1000       10     1                 table
            2000             2000       60    16 .text
            2000             2000       22    16         a.o:(.text._start)
            2000             2000       22     1                 _start
            2030             2030       20    16         b.o:(.text._ZN5first17h0E)
            2030             2030       20     1                 _ZN5first17h0E
            2030             2030       20     1                 its_other_name
            2050             2050        0     1                 a_label
";
        let expected = BTreeMap::from([(0x2000, "_start"), (0x2030, "_ZN5first17h0E")]);
        assert_eq!(parse_functions(map), expected);
    }
}
