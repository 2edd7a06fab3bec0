//! A server of this program itself, as a process of its own.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, Command, Stdio},
};

use anyhow::{Context, Result};

use crate::environment::Programs;

/// A hidden mode of this program that serves until its stdin closes, and whose first line on stdout is its port. It ends
/// when this is dropped.
pub(crate) struct EchoServer {
    pub(crate) port: u16,
    _stdin: ChildStdin,
    _process: Child,
}

impl EchoServer {
    pub(crate) fn start(programs: &Programs, mode: &str) -> Result<Self> {
        let mut process = Command::new(&programs.own)
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = process.stdin.take().context("no stdin")?;
        let mut stdout = BufReader::new(process.stdout.take().context("no stdout")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        Ok(Self {
            port: line.trim().parse()?,
            _stdin: stdin,
            _process: process,
        })
    }

    /// Where it speaks MCP.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}
