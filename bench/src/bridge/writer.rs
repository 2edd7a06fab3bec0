//! Another process that writes to the store, as the gateway does.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use hermes_config::Home;
use hermes_store::{Access, NewMessage, Role, Store};

use crate::{
    environment::{Programs, RuntimeFlavour},
    filled_store, samples,
};

/// A process that writes what it is told to.
pub(super) struct WriterProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// A message that was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenMessage {
    pub(super) id: i64,
    /// When the writer began to insert it.
    pub(super) began: Duration,
}

impl WriterProcess {
    pub(super) fn start(programs: &Programs, home: &Path) -> Result<Self> {
        let mut child = Command::new(&programs.own)
            .arg("write")
            .arg(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().context("no stdout")?;
        Ok(Self {
            input: child.stdin.take().context("no stdin")?,
            output: BufReader::new(output),
            child,
        })
    }

    /// Has a message written to a chat, and waits for that.
    pub(super) fn write(&mut self, chat: usize) -> Result<WrittenMessage> {
        self.request_write(chat)?;
        self.wait_written()
    }

    /// Has a message written to a chat.
    pub(super) fn request_write(&mut self, chat: usize) -> Result<()> {
        Ok(writeln!(self.input, "{chat}")?)
    }

    /// Waits until what was ordered is written.
    pub(super) fn wait_written(&mut self) -> Result<WrittenMessage> {
        let mut line = String::new();
        let length = self.output.read_line(&mut line)?;
        ensure!(length > 0, "the writer has ended");
        let (id, began) = serde_json::from_str(&line)?;
        Ok(WrittenMessage { id, began })
    }

    pub(super) fn end(self) -> Result<()> {
        let Self {
            mut child, input, ..
        } = self;
        drop(input);
        let status = child.wait()?;
        ensure!(status.success(), "the writer ended with {status}");
        Ok(())
    }
}

/// The hidden mode: reads numbers of chats, writes a message to each, and prints its id and when it began to.
pub(crate) fn child(home: &str) -> Result<ExitCode> {
    let home = Home::at(home);
    RuntimeFlavour::OneThread.run(async move {
        let store = Store::open(&home, Access::ReadWrite).await?;
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line)? > 0 {
            let session = filled_store::session_id(line.trim().parse()?)?;
            line.clear();
            let message = NewMessage::new(Role::User, "A message of the writer");
            let began = samples::monotonic_time()?;
            let id = store.append(&session, &message).await?;
            let written = serde_json::to_string(&(id.0, began))?;
            writeln!(std::io::stdout(), "{written}")?;
        }
        store.close().await;
        Ok(ExitCode::SUCCESS)
    })
}
